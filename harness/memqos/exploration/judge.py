"""Runs examples on a node, many at a time, and judges each."""

from __future__ import annotations

import dataclasses
import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memqos.catalog.kubelets import KubeletCase
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.plan import Level, Plan, PlannedCgroup, PlannedPod
from memqos.errors import EnactorNotAbleError, MachineryError, NonconformanceError, UsageError
from memqos.exploration import tree_program
from memqos.exploration.cgroup_trees import Tolerances, cgroups_of, tree_findings, why_not_tried
from memqos.exploration.examples import ConfiguredKubelet, Example, Kind, is_node_wide, kubelet_case, pod_of
from memqos.exploration.lifecycle_runner import LifecycleRunner
from memqos.model.knob import Bytes, CpuMax, Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT
from memqos.model.pod import Container, Pod
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.population import Population
from memqos.target.base import checked

__all__ = ["ExampleResult", "Judge", "unable_to_start"]

MIB = 1 << 20
LEAST_ROOM = {Knob.MEMORY_MAX: 16 * MIB, Knob.MEMORY_HIGH: 40 * MIB}
"""The least memory limit, in bytes: a runtime's own process is in the cgroup while it makes a container. Above
memory.high that process is throttled for minutes."""
LEAST_SHARE = 2
"""The least CPU quota, as a divisor of the period: with less a container takes too long to start."""
PLAIN = "plain"
TREE_SECONDS = 3.0
"""Seconds for the leaves of a tree to reach their usage; a leaf throttled by memory.high does not reach it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleResult:
    """The result of an example.

    findings: about its pods or its container. above: about the cgroups above pods, shared with the other examples that
    ran at the same time. trouble: what did not start or could not be removed, "" for none. skipped: why it did not
    run, "" if it did. containers: how many were judged.
    """

    example: Example
    findings: Sequence[Finding] = ()
    above: Sequence[Finding] = ()
    trouble: str = ""
    skipped: str = ""
    containers: int = 0

    @property
    def deviations(self) -> Sequence[Finding]:
        """The deviations among `findings`."""
        return [one for one in self.findings if one.verdict is Verdict.DEVIATES]


def _with_trouble(tried: Sequence[ExampleResult], trouble: str) -> Sequence[ExampleResult]:
    """The results, with this trouble in the first that was not skipped."""
    first = next((number for number, one in enumerate(tried) if not one.skipped), 0)
    return [dataclasses.replace(one, trouble=trouble) if at == first else one for at, one in enumerate(tried)]


def unable_to_start(pod: PlannedPod) -> str:
    """Why the containers of a pod cannot start with any runtime; "" if they can."""
    for cgroup in (pod.cgroup, *(one.cgroup for one in pod.containers)):
        if why := _too_small(cgroup):
            return why
    return ""


def _too_small(cgroup: PlannedCgroup) -> str:
    where = f"container {cgroup.container}" if cgroup.container else "the pod"
    for knob, least in LEAST_ROOM.items():
        value = cgroup.knobs[knob].value if knob in cgroup.knobs else None
        if isinstance(value, Bytes) and value.count < least:
            return f"{knob} of {where} is {value}, too little to start in"
    quota = cgroup.knobs[Knob.CPU_MAX].value if Knob.CPU_MAX in cgroup.knobs else None
    if isinstance(quota, CpuMax) and isinstance(quota.quota, int) and quota.quota * LEAST_SHARE < quota.period:
        return f"{Knob.CPU_MAX} of {where} is {quota}, too little to start in"
    return ""


@dataclass(slots=True)
class _Named:
    """An example whose pods have unique names and uids."""

    example: Example
    pods: Sequence[Pod]
    skipped: str = ""
    tried: ExampleResult | None = None
    extra: list[Finding] = field(default_factory=list)


class Judge:
    """Runs examples on a node and judges them."""

    def __init__(self, node: NodeUnderTest) -> None:
        self._node = node
        self._numbers = itertools.count()

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[ExampleResult]:
        """The result of each example, in order. alone: run one at a time.

        Raises MachineryError for a failure of the machine itself.
        """
        found: dict[int, ExampleResult] = {}
        for numbers in _groups(examples, alone=alone):
            some = [examples[number] for number in numbers]
            kind = some[0].kind
            if kind is Kind.KERNEL:
                tried = self._in_trees(some)
            else:
                tried = self._lifecycle_results(some) if kind is Kind.LIFECYCLE else self._admitted(some, kind)
            found |= dict(zip(numbers, tried, strict=True))
        return [found[number] for number in range(len(examples))]

    # ---- pods

    def _admitted(self, examples: Sequence[Example], kind: Kind) -> Sequence[ExampleResult]:
        named = [self._named(one) for one in examples]
        case = kubelet_case(examples[0].kubelet)
        try:
            self._pass_over(named, case)
        except UsageError as error:
            return [ExampleResult(example=one, skipped=str(error)) for one in examples]
        pods = [pod for one in named if not one.skipped for pod in one.pods]
        if not pods:
            return [ExampleResult(example=one.example, skipped=one.skipped) for one in named]
        found: Sequence[ExampleResult] = ()
        try:
            with self._node.admitted(pods, case) as population:
                found = self._judged(named, population, case, kind)
        except EnactorNotAbleError as error:
            return [ExampleResult(example=one.example, skipped=one.skipped or str(error)) for one in named]
        except MachineryError as error:
            if not found:
                raise
            # The pods were judged, and could not be removed: a next batch will show whether the machine is usable.
            return _with_trouble(found, f"pods were not removed: {error}")
        return found

    def _judged(
        self, named: Sequence[_Named], population: Population, case: KubeletCase, kind: Kind
    ) -> Sequence[ExampleResult]:
        above = self._above(population)
        if kind is Kind.RESTART:
            return self._restarted(named, population, above)
        now = population
        for one in named if kind is Kind.RESIZE else ():
            now = self._resized(one, now, case)
        return [self._result_of(one, now, above) for one in named]

    def _named(self, example: Example) -> _Named:
        number = next(self._numbers)
        pods = [
            dataclasses.replace(pod, name=f"x{number}-{pod.name}", uid=str(uuid.uuid4()), file="")
            for pod in map(pod_of, example.pods)
        ]
        return _Named(example, pods)

    def _pass_over(self, named: Sequence[_Named], case: KubeletCase) -> None:
        """Mark examples that cannot run here: the kubelet refuses a pod, or a pod is too small to start."""
        real = not self._node.why_not("kubelet")
        plan = self._node.plan([pod for one in named for pod in one.pods], case, fit=real)
        planned = {pod.uid: pod for pod in plan.pods}
        for one in named:
            for pod in one.pods:
                if pod.uid not in planned:
                    one.skipped = _refusal(plan, pod)
                elif why := unable_to_start(planned[pod.uid]):
                    one.skipped = why

    def _above(self, population: Population) -> Sequence[Finding]:
        classes = [cgroup.qos for cgroup in population.plan.qos if cgroup.qos is not None]
        return [*population.judge_node(), *(one for qos in classes for one in population.judge_class(qos))]

    def _result_of(self, one: _Named, population: Population, above: Sequence[Finding]) -> ExampleResult:
        if one.skipped:
            return ExampleResult(example=one.example, skipped=one.skipped)
        if one.tried is not None:
            return one.tried
        findings, trouble = list(one.extra), ""
        for pod in one.pods:
            try:
                findings += population.judge_pod(pod)
            except NonconformanceError as error:
                findings += _finding_in(error)
            except MachineryError as error:
                trouble = f"pod {pod.name} did not start: {error}"
        return ExampleResult(
            example=one.example,
            findings=findings,
            above=above,
            trouble=trouble,
            containers=_judged_containers(findings),
        )

    # ---- resizes and restarts

    def _resized(self, one: _Named, population: Population, case: KubeletCase) -> Population:
        """The population after the resize of an example's pod; its findings are added to `extra`."""
        [pod] = one.pods
        if one.skipped or one.example.to is None or population.pods[pod.uid].failure is not None:
            return population
        wanted = dataclasses.replace(pod_of(one.example.to), name=pod.name, uid=pod.uid)
        if why := self._why_no_resize(pod, wanted, case):
            one.skipped = why
            return population
        try:
            resized = self._node.resize(population, pod, case, to=wanted, above=False)
        except (UsageError, EnactorNotAbleError) as error:
            one.skipped = str(error)
            return population
        except NonconformanceError as error:
            one.tried = ExampleResult(example=one.example, findings=_finding_in(error))
            return population
        except MachineryError as error:
            one.tried = ExampleResult(example=one.example, trouble=f"pod {pod.name} was not resized: {error}")
            return population
        found = resized.judge()
        one.tried = ExampleResult(example=one.example, findings=found, containers=_judged_containers(found))
        return resized.population

    def _why_no_resize(self, pod: Pod, wanted: Pod, case: KubeletCase) -> str:
        """Why the pod cannot be resized this way; "" if it can and its containers still have enough memory."""
        if [_places(one) for one in pod.all_containers] != [_places(one) for one in wanted.all_containers]:
            return "a resize cannot add or remove fields"
        plan = self._node.plan([wanted], case)
        return unable_to_start(plan.pods[0]) if plan.pods else _refusal(plan, wanted)

    def _restarted(
        self, named: Sequence[_Named], population: Population, above: Sequence[Finding]
    ) -> Sequence[ExampleResult]:
        """The pods under one kubelet after another, until the first deviation."""
        kubelets: Sequence[ConfiguredKubelet] = named[0].example.then
        tried = [self._result_of(one, population, above) for one in named]
        for number, kubelet in enumerate(kubelets, 1):
            if any(one.deviations or _deviating(one.above) for one in tried):
                break
            case = kubelet_case(kubelet)
            why = self._why_no_restart(named, population, case)
            if why:
                return [dataclasses.replace(one, skipped=why) for one in tried]
            try:
                population = self._node.restart_kubelet(population, case)
            except EnactorNotAbleError as error:
                return [dataclasses.replace(one, skipped=str(error)) for one in tried]
            when = f"under kubelet {number + 1}, {kubelet.kubernetes}"
            above = [dataclasses.replace(one, subject=one.subject.at(when)) for one in self._above(population)]
            tried = [self._result_of(one, population, above) for one in named]
        return tried

    def _why_no_restart(self, named: Sequence[_Named], population: Population, case: KubeletCase) -> str:
        if population.failures:
            return "not every pod came up"
        pods = [pod for one in named if not one.skipped for pod in one.pods]
        try:
            plan = self._node.plan(pods, case)
        except UsageError as error:
            return str(error)
        return next(filter(None, map(unable_to_start, plan.pods)), "")

    # ---- trees of cgroups

    def _in_trees(self, examples: Sequence[Example]) -> Sequence[ExampleResult]:
        """Try trees of cgroups on the kernel, one after another: each has the machine's memory to itself."""
        why = "" if self._node.tree.hierarchy.version is CgroupVersion.V2 else "trees of cgroups need cgroup v2"
        whys = [why or why_not_tried(one.tree or {}, self._tolerances) for one in examples]
        chosen = [one for one, why in zip(examples, whys, strict=True) if not why]
        answers = iter(self._told_of_trees(chosen) if chosen else ())
        return [
            ExampleResult(example=one, skipped=why) if why else self._in_tree(one, next(answers))
            for one, why in zip(examples, whys, strict=True)
        ]

    def _told_of_trees(self, examples: Sequence[Example]) -> Sequence[Any]:
        trees = [
            {
                "limit": tree.get("limit"),
                "cgroups": [cgroup.document() for cgroup in cgroups_of(tree)],
            }
            for tree in (one.tree or {} for one in examples)
        ]
        request = {"mount": self._node.tree.hierarchy.folder(ROOT), "seconds": TREE_SECONDS, "trees": trees}
        argv = ["python3", "-", json.dumps(request)]
        program = Path(tree_program.__file__).read_bytes()
        deadline = Deadline.after(60 + 20 * TREE_SECONDS * len(trees))
        text = checked(
            self._node.target.run(argv, stdin=program, deadline=deadline), where=self._node.target.address
        ).text
        answers: list[Any] = json.loads(text)
        return answers

    def _in_tree(self, example: Example, said: Mapping[str, Any]) -> ExampleResult:
        if "error" in said:
            return ExampleResult(example=example, trouble=f"the tree was not created: {said['error']}")
        findings = tree_findings(
            example.tree or {},
            said,
            recursive=self._node.tree.hierarchy.is_recursive,
            tolerances=self._tolerances,
        )
        return ExampleResult(example=example, findings=findings)

    @property
    def _tolerances(self) -> Tolerances:
        facts = self._node.facts
        return Tolerances(page_size=facts.page_size, cpus=facts.cpus)

    # ---- lifecycles

    def _lifecycle_results(self, examples: Sequence[Example]) -> Sequence[ExampleResult]:
        case = kubelet_case(examples[0].kubelet)
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": PLAIN},
            "spec": {
                "hostNetwork": True,
                "containers": [{"name": "app", "image": "memqos.local/memload:1", "args": ["hold"]}],
            },
        }
        pod = pod_of(manifest, uid=str(uuid.uuid4()))
        with self._node.requests_as(pod, case, LifecycleRunner) as lives:
            outcomes = lives.run_each([one.steps for one in examples])
        return [
            ExampleResult(example=one, trouble=f"{outcome}")
            if isinstance(outcome, MachineryError)
            else ExampleResult(example=one, findings=outcome, containers=1 if outcome else 0)
            for one, outcome in zip(examples, outcomes, strict=True)
        ]


def _groups(examples: Sequence[Example], *, alone: bool) -> Iterator[list[int]]:
    """The indices of examples that can run at the same time."""
    together: dict[str, list[int]] = {}
    for number, one in enumerate(examples):
        apart = alone or is_node_wide(one.steps)
        together.setdefault(f"{one.together} {number if apart else ''}", []).append(number)
    yield from together.values()


def _places(container: Container) -> tuple[str, frozenset[str], frozenset[str]]:
    return container.name, frozenset(container.resources.requests), frozenset(container.resources.limits)


def _refusal(plan: Plan, pod: Pod) -> str:
    said = [one.message for one in plan.refusals if one.pod == pod.uid]
    return f"pod {pod.name} is refused: {said[0] if said else 'no reason is known'}"


def _finding_in(error: NonconformanceError) -> list[Finding]:
    own = error.data.get("finding")
    return [own] if isinstance(own, Finding) else []


def _deviating(findings: Iterable[Finding]) -> bool:
    return any(one.verdict is Verdict.DEVIATES for one in findings)


def _judged_containers(findings: Iterable[Finding]) -> int:
    """The number of containers with at least one observed file."""
    seen = {
        (one.subject.pod, one.subject.container)
        for one in findings
        if one.subject.level is Level.CONTAINER and one.verdict is not Verdict.NOT_OBSERVABLE
    }
    return len(seen)
