"""`memqos audit`: a recorded tree held against the plan, without any machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import click

from memqos.catalog.pods import load_pods
from memqos.catalog.recorded_trees import Recognised, RecordedTree, load_tree, recognise
from memqos.cli.kubelet_options import KubeletOptions, kubelet_options
from memqos.cli.node_options import NodeOptions, node_options
from memqos.cli.runtime_options import RuntimeOptions, runtime_options
from memqos.engine.document import reason_document
from memqos.engine.expect import expect
from memqos.engine.explain import failure
from memqos.engine.finding import Finding, Verdict
from memqos.engine.numa.admit import start
from memqos.engine.numa.policies import MemoryPolicy, Policies
from memqos.engine.numa.restore import StartRefusal, restore
from memqos.engine.numa.zone_table import ZoneTable
from memqos.engine.plan import Plan
from memqos.engine.release import Release, Variant
from memqos.engine.translate.versions import Runtimes
from memqos.engine.verdict import judge
from memqos.errors import ExitCode, UsageError
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts
from memqos.model.pod import Pod
from memqos.model.traits import RuntimeTraits

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

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is judged: the tree, and everything that the plan is made from."""

    tree: RecordedTree
    release: str
    node: NodeFacts
    settings: KubeletSettings
    pods: tuple[Pod, ...]
    driver: CgroupDriver | None
    variant: Variant
    static: bool
    runtimes: Runtimes
    traits: RuntimeTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The plan, the findings, and the pods of the tree that nobody gave."""

    plan: Plan
    findings: tuple[Finding, ...]
    strangers: tuple[str, ...]

    def of(self, verdict: Verdict) -> tuple[Finding, ...]:
        """The findings with one verdict."""
        return tuple(finding for finding in self.findings if finding.verdict is verdict)

    @property
    def exit_code(self) -> ExitCode:
        """Deviating outweighs conforming; a tree of which nothing was observed is not judged at all."""
        if self.of(Verdict.DEVIATES):
            return ExitCode.DEVIATES
        return ExitCode.CONFORMS if self.of(Verdict.CONFORMS) else ExitCode.NOTHING_OBSERVED


@click.command(name="audit", help=HELP)
@click.option("--tree", required=True, metavar="FILE", help="The recorded tree (JSON).")
@click.option("--kubernetes", metavar="X.Y", help="The Kubernetes release; else the recorded kubelet's.")
@click.option("--pods", multiple=True, metavar="FILE", help="Pod manifests; may be repeated. Else the recorded ones.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--kubelet-config", metavar="FILE", help="A KubeletConfiguration; else the recorded one.")
@kubelet_options
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
    said = NodeOptions(**more)
    if [tree, *pods, *files, kubelet_config, said.node_file].count("-") > 1:
        raise UsageError("standard input (-) can be read once only.", where="memqos audit")
    recorded = load_tree(tree, () if kubelet_config else kubelet.overrides)
    manifests = (*pods, *files)
    given = load_pods(manifests) if manifests else recorded.pods
    release = kubernetes or recorded.release
    if given is None:
        raise _missing("pods", tree, "Give the pods' manifests with --pods.")
    if not release:
        raise _missing("kubelet (its release)", tree, "Give the release with --kubernetes.")
    if recorded.node is None and said.capacity_memory is None and said.node_file is None:
        raise _missing("node", tree, "Give the facts of the node with --node, or at least --capacity-memory.")
    runtimes = runtime.runtimes(recorded.runtimes)
    settings = recorded.settings
    if kubelet_config or settings is None:
        settings = kubelet.settings(kubelet_config)
    question = _Question(
        tree=recorded,
        release=release,
        node=said.facts(recorded.node),
        settings=settings,
        pods=given,
        driver=kubelet.cgroup_driver,
        variant=kubelet.followed,
        static=static,
        runtimes=runtimes,
        traits=runtime.traits(runtimes),
    )
    answer = _judged(question)
    click.echo(json.dumps(_document(question, answer), indent=1) if as_json else _text(question, answer))
    return answer.exit_code


def _missing(what: str, tree: str, next_step: str) -> UsageError:
    return UsageError(f"the recorded tree does not say '{what}'.", where=tree, next_step=next_step)


def _judged(question: _Question) -> _Answer:
    recognised = recognise(question.pods, question.tree, static=question.static)
    # Pods that are not there must be refused, or are missing: what they would have changed is not in the tree.
    plan = _plan(question, (*recognised.present, *recognised.absent))
    refused = {refusal.pod for refusal in plan.refusals}
    absent = [pod for pod in recognised.absent if pod.uid not in refused]
    if absent:
        plan = _plan(question, [*recognised.present, *(pod for pod in recognised.absent if pod.uid in refused)])
    traits = question.traits
    findings = judge(plan, question.tree.reading, ids=recognised.ids, flavour=traits.flavour, subgroup=traits.subgroup)
    return _Answer(
        plan=plan,
        findings=(*findings, *_admission(plan, recognised), *map(_missing_pod, absent)),
        strangers=recognised.strangers,
    )


def _table(question: _Question) -> ZoneTable | None:
    """What the Memory Manager of the recording holds: pods keep their zones, in whatever order they came."""
    policies = Policies.of(question.settings, Release.parse(question.release))
    if question.tree.checkpoint is None or policies.memory is MemoryPolicy.NONE:
        return None
    table = restore(question.tree.checkpoint, start(question.node, question.settings, policies), policies)
    if isinstance(table, StartRefusal):
        raise UsageError(
            f"with this configuration and node no kubelet goes on from the recorded state: {table.message}.",
            where=f"{question.tree.source}: memory_manager_state",
            next_step="Give the configuration and the node of the recording.",
        )
    return table


def _plan(question: _Question, pods: Sequence[Pod]) -> Plan:
    return expect(
        pods,
        node=question.node,
        settings=question.settings,
        release=question.release,
        driver=question.driver,
        variant=question.variant,
        traits=question.traits,
        table=_table(question),
    )


def _missing_pod(pod: Pod) -> Finding:
    return Finding(
        verdict=Verdict.NOT_OBSERVABLE,
        subject=f"pod {pod.namespace}/{pod.name}",
        cgroup="",
        knob="admission",
        expected="running",
        observed="",
        why_not="the tree has no container of this pod",
    )


def _admission(plan: Plan, recognised: Recognised) -> list[Finding]:
    """Pods that are refused: those which run nevertheless deviate."""
    running = {pod.uid for pod in recognised.present}
    return [
        Finding(
            verdict=Verdict.DEVIATES if refusal.pod in running else Verdict.CONFORMS,
            subject=f"pod {refusal.name}",
            cgroup="",
            knob="admission",
            expected=f"refused ({refusal.reason_name})",
            observed="running" if refusal.pod in running else "not running",
            reason=refusal.reason,
        )
        for refusal in plan.refusals
    ]


def _text(question: _Question, answer: _Answer) -> str:
    parts = [failure(finding) for finding in answer.of(Verdict.DEVIATES)]
    unseen: dict[tuple[str, str], list[str]] = {}
    for finding in answer.of(Verdict.NOT_OBSERVABLE):
        unseen.setdefault((finding.subject, finding.why_not), []).append(finding.knob)
    parts += [f"not observable: {', '.join(knobs)} of {name}: {why}" for (name, why), knobs in unseen.items()]
    if answer.strangers:
        parts.append(f"not judged, since they were not given: pods {', '.join(answer.strangers)}")
    unknown = [str(one) for one in (question.runtimes.cri, question.runtimes.oci) if not one.version]
    if unknown:
        parts.append(
            f"taken to run on {' and '.join(unknown)}: what versions do differently is not judged; --runtime names them"
        )
    counts = ", ".join(f"{len(answer.of(verdict))} {_plural(verdict)}" for verdict in Verdict)
    parts.append(f"{question.tree.source}: Kubernetes {answer.plan.release}: {counts}")
    return "\n\n".join(parts)


def _plural(verdict: Verdict) -> str:
    return {Verdict.CONFORMS: "conform", Verdict.DEVIATES: "deviate"}.get(verdict, verdict.value)


def _document(question: _Question, answer: _Answer) -> dict[str, object]:
    return {
        "memqos_format": FORMAT,
        "tree": question.tree.source,
        "release": answer.plan.release,
        "driver": answer.plan.driver.value,
        "variant": question.variant.value,
        "runtimes": [str(question.runtimes.cri), str(question.runtimes.oci)],
        "counts": {verdict.value: len(answer.of(verdict)) for verdict in Verdict},
        "findings": [
            {
                "verdict": one.verdict.value,
                "subject": one.subject,
                "cgroup": one.cgroup,
                "knob": one.knob,
                "expected": one.expected,
                "observed": one.observed,
                "why_not": one.why_not,
                "reason": reason_document(one.reason) if one.reason else None,
            }
            for one in answer.findings
        ],
        "not_judged": list(answer.strangers),
    }
