"""What `memqos expect` is asked for, and which of it goes together."""

from __future__ import annotations

from dataclasses import dataclass

import click

from memqos.cli.kubelet_options import KubeletOptions
from memqos.cli.manifest_options import ManifestOptions
from memqos.cli.node_options import NodeOptions
from memqos.cli.runtime_options import RuntimeOptions
from memqos.errors import UsageError

__all__ = ["Asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, as click gives it."""

    files: tuple[str, ...]
    as_json: bool
    node: NodeOptions
    runtime: RuntimeOptions
    kubelet: KubeletOptions
    manifests: ManifestOptions
    kubernetes: str | None
    kubelet_config: tuple[str, ...]
    why: str | None
    static: bool
    translate: tuple[str, ...]
    protection: bool
    throttling: bool
    hz: int | None
    oom: bool
    usage: tuple[str, ...]
    state: tuple[str, ...]
    diff: tuple[str, str] | None
    diff_config: tuple[str, ...]
    running: bool
    resize: str | None
    node_name: str | None
    pod: tuple[str, ...]
    container: tuple[str, ...]

    def check(self) -> None:
        """Usage that no single option can see."""
        if not self.files:
            raise click.UsageError("Missing argument 'FILE...': the pods' manifests.")
        if not (self.kubernetes or self.diff or self.node.node_file or self.kubelet_config):
            raise click.UsageError("Missing option '--kubernetes': the release, such as 1.36.")
        if self.kubernetes and self.diff:
            raise click.UsageError("--diff names both releases: leave --kubernetes out.")
        if self.running and not (self.diff or self.diff_config):
            raise click.UsageError("--running is about a change: give --diff or --diff-config.")
        if self.why and (self.diff or self.diff_config):
            raise click.UsageError("--why explains one plan: what changes has its reasons already.")
        self._check_answers()
        configurations = (*self.kubelet_config, *self.diff_config, *self.kubelet.flags)
        read = [*self.files, *configurations, self.node.node_file, self.resize]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos expect")

    def _check_answers(self) -> None:
        """Which answers go together."""
        of_one_plan = bool(self.translate) or self.protection or self.throttling or self.oom
        if of_one_plan and (self.diff or self.diff_config):
            raise click.UsageError(
                "--translate, --protection, --throttling and --oom are about one plan: leave the differences out."
            )
        if self.resize and of_one_plan:
            raise click.UsageError("--resize is an answer of its own: leave translations and the others out.")
        if self.resize and (self.diff or self.diff_config) and not self.running:
            raise click.UsageError("--resize after --diff or --diff-config needs --running: the pods run through both.")
        if self.resize and (self.pod or self.container):
            raise click.UsageError("--resize is about the pods of two manifests: leave --pod and --container out.")
        if self.state and not self.resize:
            raise click.UsageError("--state is for --resize.")
        if self.usage and not (self.protection or self.oom or self.resize):
            raise click.UsageError("--usage is for --protection, --oom and --resize.")
        if self.hz is not None and not self.throttling:
            raise click.UsageError("--hz is for --throttling: nothing else depends on the kernel's jiffies.")
        if self.translate and self.runtime.weight:
            raise click.UsageError("--translate needs the runtimes' rules: name them with --runtime, not --weight.")
