"""The options of `memqos expect`, and which of them can be combined."""

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
    """The options and arguments, as click gives them."""

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
        """Raise UsageError for options that do not fit together."""
        if not self.files:
            raise click.UsageError("Missing argument 'FILE...': the pods' manifests.")
        if not (self.kubernetes or self.diff or self.node.node_file or self.kubelet_config):
            raise click.UsageError("Missing option '--kubernetes': the release, such as 1.36.")
        if self.kubernetes and self.diff:
            raise click.UsageError("--diff names both releases: leave --kubernetes out.")
        if self.running and not (self.diff or self.diff_config):
            raise click.UsageError("--running needs a change: give --diff or --diff-config.")
        if self.why and (self.diff or self.diff_config):
            raise click.UsageError("--why explains one plan; --diff and --diff-config print their reasons without it.")
        self._check_answers()
        configurations = (*self.kubelet_config, *self.diff_config, *self.kubelet.flags)
        read = [*self.files, *configurations, self.node.node_file, self.resize]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos expect")

    def _check_answers(self) -> None:
        """Raise UsageError for answers that cannot be combined."""
        of_one_plan = bool(self.translate) or self.protection or self.throttling or self.oom
        if of_one_plan and (self.diff or self.diff_config):
            raise click.UsageError(
                "--translate, --protection, --throttling and --oom need one plan: leave out --diff and --diff-config."
            )
        if self.resize and of_one_plan:
            raise click.UsageError("--resize cannot be combined with --translate, --protection, --throttling or --oom.")
        if self.resize and (self.diff or self.diff_config) and not self.running:
            raise click.UsageError("--resize with --diff or --diff-config needs --running: the pods run through both.")
        if self.resize and (self.pod or self.container):
            raise click.UsageError("--resize needs all pods of both manifests: leave out --pod and --container.")
        if self.state and not self.resize:
            raise click.UsageError("--state needs --resize.")
        if self.usage and not (self.protection or self.oom or self.resize):
            raise click.UsageError("--usage needs --protection, --oom or --resize.")
        if self.hz is not None and not self.throttling:
            raise click.UsageError("--hz needs --throttling: no other answer depends on the kernel's jiffies.")
        if self.translate and self.runtime.weight:
            raise click.UsageError("--translate needs the runtimes' rules: name them with --runtime, not --weight.")
