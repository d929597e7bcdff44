"""Exploration without a machine: an audit of the tree that a plan describes must find nothing wrong."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO

from memqos.audits.judgement import judged
from memqos.audits.question import Question
from memqos.catalog.cluster_objects import ClusterObject, gathered
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.recorded_trees import RecordedContainer, RecordedTree
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import plan_tree
from memqos.engine.answer.finding import Verdict
from memqos.engine.answer.verdict import NOT_READ, NOT_STARTED
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import ExitCode, MemqosError, UsageError
from memqos.exploration import Document
from memqos.exploration.batches import drawn
from memqos.exploration.configurations import nodes
from memqos.exploration.strategies import Situation, situations
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod
from memqos.model.reading import CgroupReading, Reading

__all__ = ["EngineAlone", "Outcome", "judged_situation"]

_BATCH = 10
_EVERY = 5.0
_MOST_LISTED = 5
_UNSEEN = (NOT_READ, NOT_STARTED, "the file was not read")
"""Reasons for *not observable* that are wrong here: the plan's own tree contains every file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for a situation. files: how many conform. refused: the error if the situation is refused, else "".

    wrong: a deviation from the plan's own tree or an exception, "" for none.
    """

    files: int = 0
    pods: int = 0
    refused: str = ""
    wrong: str = ""


def judged_situation(situation: Situation) -> Outcome:
    """Plan a situation, print the plan in every form, and audit the tree that it describes."""
    try:
        return _judged(situation)
    except MemqosError as error:
        return Outcome(refused=str(error)) if isinstance(error, UsageError) else Outcome(wrong=str(error))
    except Exception as error:  # noqa: BLE001 - any other exception is a fault to report
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(wrong=f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")


def _judged(situation: Situation) -> Outcome:
    pods = pods_of(situation)
    kubelet = Kubelet.of(
        node=situation.node,
        settings=situation.kubelet.settings,
        release=situation.kubelet.kubernetes,
        driver=situation.driver,
    )
    plan = expect(pods, kubelet)
    json.dumps(plan_document(plan))
    plan_tree(plan)
    running = [pod for pod in pods if plan.has(pod.uid)]
    tree = tree_of_plan(plan, running)
    audit = judged(Question(tree=tree, kubelet=kubelet, pods=tuple(running), static=False))
    for one in audit.findings:
        if one.verdict is Verdict.DEVIATES or one.why_not in _UNSEEN:
            return Outcome(wrong=str(one))
    files = sum(one.verdict is Verdict.CONFORMS for one in audit.findings)
    return Outcome(files=files, pods=len(running))


def pods_of(situation: Situation) -> Sequence[Pod]:
    """The pods after admission with the situation's objects."""
    found: list[Pod] = []
    objects: list[ClusterObject] = []
    for number, document in enumerate([*situation.objects, *situation.pods]):
        for one in manifests_in(BytesIO(json.dumps(document).encode()), f"{number}.json"):
            if isinstance(one, ClusterObject):
                objects.append(one)
            elif isinstance(one, Manifest):
                found += one.pods
    cluster = gathered(objects, recommendations=False)
    return [
        pod if pod.submission is None else replace(pod, submission=replace(pod.submission, cluster=cluster))
        for pod in found
    ]


def tree_of_plan(plan: Plan, pods: Sequence[Pod]) -> RecordedTree:
    """A recording of a node with exactly the planned values."""
    cgroups: dict[CgroupPath, CgroupReading] = {}
    containers: list[RecordedContainer] = []
    for cgroup in (plan.node, *plan.qos, *plan.reserved, *(pod.cgroup for pod in plan.pods)):
        _put(cgroups, cgroup.path, cgroup)
    for pod in plan.pods:
        layout = plan.layout_of(pod)
        for container in pod.containers:
            if container.refusal:
                continue
            container_id = f"{len(containers):064x}"
            containers.append(RecordedContainer(id=container_id, pod=pod.name, name=container.name, uid=pod.uid))
            _put(cgroups, layout.container(pod.cgroup.path, container_id), container.cgroup)
    return RecordedTree(
        source="plan",
        reading=Reading(source="plan", at=0.0, cgroups=cgroups),
        containers=tuple(containers),
        sandboxes={pod.uid: pod.name for pod in plan.pods},
        pods=tuple(pods),
    )


def _put(cgroups: dict[CgroupPath, CgroupReading], path: CgroupPath, cgroup: PlannedCgroup) -> None:
    files = {knob.value: f"{expected.value}\n" for knob, expected in cgroup.knobs.items()}
    before = cgroups[path].files if path in cgroups else {}
    cgroups[path] = CgroupReading(path=path, files={**before, **files})


@dataclass
class EngineAlone:
    """Explores situations until a deadline.

    seed: of the draws. releases: kubelet releases, () for any. until: the deadline.
    """

    seed: int
    releases: Sequence[str]
    until: Deadline
    situations: int = 0
    pods: int = 0
    files: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, Situation] = field(default_factory=dict)
    seconds: float = 0.0

    def run(self, *, told: Callable[[str], None], batches: int | None = None) -> None:
        """Explore. told: receives progress lines. batches: how many, None for all until the deadline."""
        begun = last = SYSTEM_CLOCK.now()
        number = 0
        while not self.until.expired and (batches is None or number < batches):
            for situation in self._batch(number):
                self._note(judged_situation(situation), situation)
            number += 1
            self.seconds = SYSTEM_CLOCK.now() - begun
            if SYSTEM_CLOCK.now() - last >= _EVERY:
                last = SYSTEM_CLOCK.now()
                told(self._line())

    def _batch(self, number: int) -> Sequence[Situation]:
        release = self.releases[number % len(self.releases)] if self.releases else None
        strategy = nodes().flatmap(lambda node: situations(node=node, kubernetes=release))
        return drawn(strategy, _BATCH, by=f"{self.seed} engine {number}")

    def _note(self, outcome: Outcome, situation: Situation) -> None:
        self.situations += 1
        self.pods += outcome.pods
        self.files += outcome.files
        if outcome.refused:
            self.refused["".join("#" if one.isdigit() else one for one in outcome.refused)[:160]] += 1
        if outcome.wrong:
            name = "".join("#" if one.isdigit() else one for one in outcome.wrong)[:160]
            known = self.wrong.get(name)
            if known is None or _size(situation) < _size(known):
                self.wrong[name] = situation

    def _line(self) -> str:
        return (
            f"{self.seconds:.0f} s: {self.situations} situations, {self.pods} pods, {self.files} files conform, "
            f"{sum(self.refused.values())} refused, {len(self.wrong)} wrong"
        )

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self._line()} (seed {self.seed})"
        for text, count in self.refused.most_common(_MOST_LISTED):
            yield f"refused ({count} times): {text}"
        for text, situation in self.wrong.items():
            yield f"wrong: {text}"
            yield f"  the smallest of these: {json.dumps(situation_document(situation))}"

    def document(self) -> Document:
        """The report as JSON."""
        return {
            "seconds": round(self.seconds, 1),
            "counts": {"situations": self.situations, "pods": self.pods, "files": self.files},
            "refused": dict(self.refused),
            "wrong": [{"wrong": text, "situation": situation_document(one)} for text, one in self.wrong.items()],
        }

    def code(self, *, interrupted: bool) -> ExitCode:
        """The exit code."""
        if self.wrong:
            return ExitCode.DEVIATES
        if interrupted:
            return ExitCode.INTERRUPTED
        return ExitCode.CONFORMS if self.files else ExitCode.NOTHING_OBSERVED


def _size(situation: Situation) -> int:
    return len(json.dumps(situation_document(situation)))


def situation_document(situation: Situation) -> Mapping[str, object]:
    """The JSON document of a situation."""
    node = situation.node
    return {
        "node": {
            "memory": node.memory,
            "swap": node.swap,
            "numa_nodes": [numa.memory for numa in node.numa_nodes],
            "page_size": node.page_size,
            "cgroup": node.cgroup_version.value,
            "swap_controller": node.swap_controller,
        },
        "driver": situation.driver.value,
        "kubernetes": situation.kubelet.kubernetes,
        "config": situation.kubelet.config,
        "objects": list(situation.objects),
        "pods": list(situation.pods),
    }
