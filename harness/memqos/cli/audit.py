"""`memqos audit`: compares a live or recorded node with the plan for its kubelet; it only reads the node."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import click

from memqos.audits.entry import known_of_kubelets
from memqos.audits.judgement import judged
from memqos.audits.question import Given, Question, Required
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.recorded_trees import RecordedTree, load_tree, tree_of
from memqos.cli.manifest_options import ManifestOptions, manifest_options
from memqos.cli.node_options import KubeletOptions, NodeOptions, kubelet_options, node_options
from memqos.cli.runtime_options import RuntimeOptions, runtime_options
from memqos.cli.terminal import say, say_document, say_ignored
from memqos.errors import ExitCode, UsageError

__all__ = ["command"]

HELP = """Judge a node on which a kubelet runs pods: does every control file hold what the kubelet's rules require?

--target names a node; memqos only reads it. --tree names a recording instead: a JSON file with the control files of
one node (docs/reference/recorded-trees.md), as `memqos collect` writes it. Configuration, node facts, runtimes and
release come from the node or the recording, unless an option overrides them. So do the pods, if the recording has them.

\b
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 | memqos audit --target ssh://root@node7 --pods -
  memqos audit --tree node7.json
  memqos audit --tree node7.json --kubernetes 1.36 --kubelet-config kubelet.yaml --pods a.yaml --pods b.yaml
  memqos audit --tree node7.json --runtime crun@1.21 --set memoryThrottlingFactor=0.8
  memqos audit --tree node7.json --was-config before.yaml --was-pods pods-before.yaml

Pods of a cluster are judged by what their kubelet has allocated (status), not by their spec. The output names every
file that deviates, with the reasons for the expected value. A known bug of the kubelet's release is reported as known.
Exit codes: 0 nothing deviates, 1 something deviates, 5 nothing could be observed.
"""

_PODS = (
    "Give their manifests: kubectl get pods -A -o json --field-selector spec.nodeName=NAME | memqos audit … --pods -"
)

_STEPS = {
    Required.PODS: "Give the pods' manifests with --pods.",
    Required.RELEASE: "Give the release with --kubernetes.",
    Required.NODE: "Give the facts of the node with --node, or at least --capacity-memory.",
}


@click.command(name="audit", help=HELP)
@click.option("--target", metavar="URL", help="The node: ssh://[USER@]HOST, local://, docker://NAME, kubectl://POD.")
@click.option("--cri-socket", default="", metavar="PATH", help="Where the node's runtime listens; see collect.")
@click.option("--tree", metavar="FILE", help="A recorded tree (JSON) instead of a node.")
@click.option("--kubernetes", metavar="X.Y", help="The Kubernetes release. Default: that of the node's kubelet.")
@click.option(
    "--pods",
    multiple=True,
    metavar="FILE",
    help="Manifests, or folders of them, as for expect, or what `kubectl get pods -o json` or the kubelet's /pods "
    "print; may be repeated. Default: the recorded pods.",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--kubelet-config",
    multiple=True,
    metavar="FILE|FOLDER",
    help="The kubelet's configuration, as for expect; may be repeated. Default: the node's, with its command line.",
)
@kubelet_options
@manifest_options
@node_options
@runtime_options
@click.option(
    "--was-config",
    multiple=True,
    metavar="FILE",
    help="The KubeletConfiguration that the node had when its pods were created, as for --kubelet-config: values that "
    "it explains are not findings about the runtime or the kubelet.",
)
@click.option(
    "--was-pods",
    multiple=True,
    metavar="FILE",
    help="The pods before they were resized in place; may be repeated.",
)
@click.option(
    "--static", is_flag=True, help="All pods are static: the kubelet reads them from files, so they are critical."
)
@click.option("--json", "as_json", is_flag=True, help="Print every finding as JSON.")
def command(*, as_json: bool, **given: Any) -> int:
    """The page of `memqos audit`. Further FILEs are pods too, so that `--pods *.yaml` works."""
    runtime = RuntimeOptions(**{field.name: given.pop(field.name) for field in fields(RuntimeOptions)})
    kubelet = KubeletOptions(**{field.name: given.pop(field.name) for field in fields(KubeletOptions)})
    manifests = ManifestOptions(**{field.name: given.pop(field.name) for field in fields(ManifestOptions)})
    node = NodeOptions(**{field.name: given.pop(field.name) for field in fields(NodeOptions)})
    order = _Order(runtime=runtime, kubelet=kubelet, manifests=manifests, node=node, **given)
    question = order.question()
    answer = judged(question)
    say_ignored(answer.plan)
    if answer.exit_code is ExitCode.NOTHING_OBSERVED and question.tree.driver is None:
        say("memqos: note: the cgroups have the names of both drivers, or of neither: give --driver.", err=True)
    if as_json:
        say_document(answer.document())
    else:
        say(answer.text())
    return answer.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The command line of an audit, and its question."""

    target: str | None
    cri_socket: str
    tree: str | None
    kubernetes: str | None
    pods: tuple[str, ...]
    files: tuple[str, ...]
    kubelet_config: tuple[str, ...]
    was_config: tuple[str, ...]
    was_pods: tuple[str, ...]
    static: bool
    runtime: RuntimeOptions
    kubelet: KubeletOptions
    manifests: ManifestOptions
    node: NodeOptions

    def question(self) -> Question:
        """What is judged. Raises UsageError if the command line and the recording together lack something."""
        self._check_standard_input()
        paths = (*self.pods, *self.files)
        given = self.manifests.load(paths).pods if paths else None
        if self.target and not paths:
            raise UsageError("a node does not record what its pods requested.", where="--target", next_step=_PODS)
        plain = KubeletOptions() if self.kubelet_config else self.kubelet
        tree = _tree(self.target, self.tree, plain, cri_socket=self.cri_socket)
        said = self.node.capacity_memory is not None or self.node.node_file is not None
        own = self.kubelet_config or tree.settings is None
        return Given(
            runtimes=self.runtime.runtimes(tree.runtimes, hugetlb=tree.hugetlb),
            pods=given,
            settings=self.kubelet.settings(self.kubelet_config or None) if own else None,
            config=", ".join(self.kubelet_config),
            argument="--kubelet-config",
            node=self.node.facts(tree.node) if said or tree.node is not None else None,
            release=self.kubernetes,
            driver=self.kubelet.cgroup_driver,
            variant=self.kubelet.followed,
            static=self.static,
            known=known_of_kubelets(),
            was_settings=load_settings(self.was_config) if self.was_config else None,
            was_pods=self.manifests.load(self.was_pods).pods if self.was_pods else None,
            was_config=", ".join(self.was_config),
            was_manifests=", ".join(self.was_pods),
        ).about(tree, steps=_STEPS)

    def _check_standard_input(self) -> None:
        configs = (*self.kubelet_config, *self.kubelet.flags, *self.was_config)
        read = [self.tree, *self.pods, *self.files, *configs, *self.was_pods, self.node.node_file]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos audit")


def _tree(target: str | None, tree: str | None, kubelet: KubeletOptions, *, cri_socket: str) -> RecordedTree:
    """The named node, read now, or a recording."""
    if (target is None) is (tree is None):
        raise UsageError(
            "an audit needs exactly one node: a live one or a recording.",
            where="memqos audit",
            next_step="Give --target URL or --tree FILE.",
        )
    if target is None:
        if cri_socket:
            raise UsageError("a recording has no socket.", where="--cri-socket", next_step="Give it with --target.")
        return load_tree(str(tree), kubelet.overrides, kubelet.flags)
    from memqos.place.collecting import collected_through
    from memqos.target.opening import check_url

    check_url(target, where="--target")
    return tree_of(collected_through(target, cri_socket=cri_socket), target, kubelet.overrides, kubelet.flags)
