"""`memqos audit`: a recorded tree held against the plan, without any machine."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from memqos.catalog.recorded_trees import load_tree
from memqos.cli.audit_answer import answer_document, answer_text
from memqos.cli.auditing import Question, judged
from memqos.cli.kubelet_options import KubeletOptions, kubelet_options
from memqos.cli.manifest_options import ManifestOptions, manifest_options
from memqos.cli.node_options import NodeOptions, node_options
from memqos.cli.runtime_options import RuntimeOptions, runtime_options
from memqos.cli.terminal import say, say_document, say_ignored
from memqos.errors import UsageError

__all__ = ["command"]

HELP = """Judge a recorded tree of cgroups: does every control file hold what the kubelet's rules say?

--tree names a JSON file with the control files of one node (docs/reference/recorded-trees.md). Pods, configuration,
node facts, runtimes and release are those that the file keeps, unless an option gives others. Nothing is run.

\b
  memqos audit --tree node7.json
  memqos audit --tree node7.json --kubernetes 1.36 --kubelet-config kubelet.yaml --pods a.yaml --pods b.yaml
  memqos audit --tree node7.json --runtime crun@1.21 --set memoryThrottlingFactor=0.8

Every file that deviates is named with the reasons for what was expected. Exit codes: 0 nothing deviates, 1 something
deviates, 5 nothing could be observed.
"""


@click.command(name="audit", help=HELP)
@click.option("--tree", required=True, metavar="FILE", help="The recorded tree (JSON).")
@click.option("--kubernetes", metavar="X.Y", help="The Kubernetes release; else the recorded kubelet's.")
@click.option(
    "--pods",
    multiple=True,
    metavar="FILE",
    help="Manifests, or folders of them, as for expect; may be repeated. Else the recorded ones.",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--kubelet-config", metavar="FILE", help="A KubeletConfiguration; else the recorded one.")
@kubelet_options
@manifest_options
@node_options
@runtime_options
@click.option("--static", is_flag=True, help="All pods are static: read from files by the kubelet, hence critical.")
@click.option("--json", "as_json", is_flag=True, help="Print every finding as JSON.")
def command(
    *,
    tree: str,
    kubernetes: str | None,
    pods: tuple[str, ...],
    files: tuple[str, ...],
    kubelet_config: str | None,
    static: bool,
    as_json: bool,
    **more: Any,
) -> int:
    """The page of `memqos audit`. Further FILEs are pods too, so that `--pods *.yaml` does what it seems to."""
    runtime = RuntimeOptions(**{field.name: more.pop(field.name) for field in fields(RuntimeOptions)})
    kubelet = KubeletOptions(**{field.name: more.pop(field.name) for field in fields(KubeletOptions)})
    manifest = ManifestOptions(**{field.name: more.pop(field.name) for field in fields(ManifestOptions)})
    said = NodeOptions(**more)
    if [tree, *pods, *files, kubelet_config, said.node_file].count("-") > 1:
        raise UsageError("standard input (-) can be read once only.", where="memqos audit")
    recorded = load_tree(tree, () if kubelet_config else kubelet.overrides)
    manifests = (*pods, *files)
    given = manifest.load(manifests) if manifests else recorded.pods
    release = kubernetes or recorded.release
    if given is None:
        raise _missing("pods", tree, "Give the pods' manifests with --pods.")
    if not release:
        raise _missing("kubelet (its release)", tree, "Give the release with --kubernetes.")
    if recorded.node is None and said.capacity_memory is None and said.node_file is None:
        raise _missing("node", tree, "Give the facts of the node with --node, or at least --capacity-memory.")
    settings = recorded.settings
    if kubelet_config or settings is None:
        settings = kubelet.settings(kubelet_config)
    question = Question(
        tree=recorded,
        kubelet=kubelet.kubelet(
            settings,
            node=said.facts(recorded.node),
            release=release,
            runtimes=runtime.runtimes(recorded.runtimes),
        ),
        pods=given,
        static=static,
    )
    answer = judged(question)
    say_ignored(answer.plan)
    if as_json:
        say_document(answer_document(question, answer))
    else:
        say(answer_text(question, answer))
    return answer.exit_code


def _missing(what: str, tree: str, next_step: str) -> UsageError:
    return UsageError(f"the recorded tree does not say '{what}'.", where=tree, next_step=next_step)
