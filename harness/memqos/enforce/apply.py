"""Performs steps on a target and undoes them: the owner of the cgroups of an enforced plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from memqos.agent.program import program
from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enforce.steps import Action, Property, Step, rewriting, steps, steps_between, undoing
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import MissingProgramError, TargetError
from memqos.model.path import CgroupPath
from memqos.target.base import checked

__all__ = ["Enforcement", "find_leftovers"]

_BEGINNINGS = frozenset({Action.MAKE, Action.ADOPT})
_ENDS = {Action.REMOVE: Action.MAKE, Action.GIVE_BACK: Action.ADOPT}
_CGROUP_SECONDS = 20.0
_WITHDRAW_SECONDS = 120.0
_NOT_FOUND = 127


class Enforcement:
    """The node, reserved, QoS and pod cgroups of one plan after another, on one target.

    A context: leaving it withdraws. name: recorded with the cgroups, so that leftovers name their run.
    """

    def __init__(self, tree: CgroupTree, *, name: str) -> None:
        self._tree = tree
        self._name = name
        self._plan: Plan | None = None
        self._made: dict[CgroupPath, Step] = {}

    def __enter__(self) -> Enforcement:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.withdraw(deadline=Deadline.after(_WITHDRAW_SECONDS))

    @property
    def plan(self) -> Plan | None:
        """The plan in force; None before the first and after a withdrawal."""
        return self._plan

    def apply(self, plan: Plan, *, deadline: Deadline) -> tuple[Step, ...]:
        """Bring the node from the plan in force to this plan, with one command; returns the steps done.

        Raises TargetError naming the failed step and its cause: an existing cgroup, a value that the kernel refuses.
        Cgroups created until then are removed by `withdraw`.
        """
        todo = steps(plan) if self._plan is None else steps_between(self._plan, plan)
        self._remember(todo)
        answer = _perform(self._tree, self._name, todo, deadline=deadline)
        if answer.failure:
            failed = todo[answer.failure.step]
            # A partly created cgroup has to be removed, and so does one whose removal failed.
            stands = answer.failure.made_something and failed.action not in _ENDS
            self._forget(todo[answer.failure.step + stands :])
            raise answer.failure.error(self._tree, todo)
        self._plan = plan
        return todo

    def rewrite(self, cgroup: PlannedCgroup, *, past_driver: bool = False, deadline: Deadline) -> None:
        """Write these knobs of an existing pod's cgroup, as a resize does, and leave its other files unchanged.

        past_driver: write only the files. The plan in force then includes them. Raises TargetError for a value that the
        kernel refuses, ValueError for a cgroup that is not a pod's in the plan in force.
        """
        plan = self._plan
        if plan is None or cgroup.path not in {pod.cgroup.path for pod in plan.pods}:
            raise ValueError(f"{cgroup.path} is not the cgroup of a pod that is in force")
        step = rewriting(cgroup, plan.driver, past_driver=past_driver)
        answer = _perform(self._tree, self._name, [step], deadline=deadline)
        if answer.failure:
            raise answer.failure.error(self._tree, [step])
        pods = tuple(
            replace(pod, cgroup=replace(pod.cgroup, knobs={**pod.cgroup.knobs, **cgroup.knobs}))
            if pod.cgroup.path == cgroup.path
            else pod
            for pod in plan.pods
        )
        self._plan = replace(plan, pods=pods)

    def withdraw(self, *, deadline: Deadline) -> tuple[int, ...]:
        """Remove every created cgroup, with everything in it; returns the processes that were found there and killed.

        A cgroup that memqos did not create is never removed: an adopted one gets its values back. Raises TargetError if
        one of memqos's own is still there afterwards. Withdrawing twice is allowed.
        """
        todo = [undoing(step) for step in reversed(self._made.values())]
        answer = _perform(self._tree, self._name, todo, deadline=deadline)
        if answer.failure:
            raise answer.failure.error(self._tree, todo)
        self._made.clear()
        self._plan = None
        return answer.killed

    def _remember(self, todo: Iterable[Step]) -> None:
        """Recorded before they are done: if the answer is lost, some of them are done."""
        for step in todo:
            if step.action in _BEGINNINGS:
                self._made[step.path] = step
            elif step.action in _ENDS:
                self._made.pop(step.path, None)

    def _forget(self, todo: Iterable[Step]) -> None:
        """Steps that are known not to have been done."""
        for step in todo:
            if step.action in _BEGINNINGS:
                self._made.pop(step.path, None)
            elif step.action in _ENDS:
                self._made[step.path] = replace(step, action=_ENDS[step.action])


def find_leftovers(tree: CgroupTree, *, deadline: Deadline) -> tuple[CgroupPath, ...]:
    """Every cgroup on the target that any enforcement created and did not remove, outermost first."""
    answer = _ask(tree, {"leftovers": {"mounts": dict(tree.hierarchy.mounts)}}, deadline=deadline)
    return tuple(CgroupPath.parse(path) for path, _, _ in answer["leftovers"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """The failed step, by its number, and the cause."""

    step: int
    what: str
    kind: str

    @property
    def made_something(self) -> bool:
        """Whether the step may be partly done: not if the cgroup existed before."""
        return self.kind == "refused"

    def error(self, tree: CgroupTree, todo: Sequence[Step]) -> TargetError:
        """The failure as an error at the step's cgroup."""
        step = todo[self.step]
        return TargetError(
            f"could not {step.action} the cgroup of {step.subject}: {self.what}.",
            where=f"{tree.target.address}{step.path}",
            next_step=_NEXT_STEPS.get(self.kind, ""),
            data={"step": _as_json(step), "kind": self.kind},
        )


_NEXT_STEPS = {
    "leftover": "Remove it with rmdir if no other run of memqos uses this machine.",
    "foreign": "A kubelet may be running here; enforcement needs a machine without one.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The agent's answer to a request."""

    killed: tuple[int, ...] = ()
    failure: _Failure | None = None


def _perform(tree: CgroupTree, name: str, todo: Sequence[Step], *, deadline: Deadline) -> _Answer:
    if not todo:
        return _Answer()
    request = {
        "mounts": dict(tree.hierarchy.mounts),
        "mark": name,
        "seconds": min(_CGROUP_SECONDS, deadline.remaining),
        "steps": [_as_json(_possible(step, tree.hierarchy)) for step in todo],
    }
    answer = _ask(tree, {"perform": request}, deadline=deadline)
    failure = answer["failure"]
    return _Answer(killed=tuple(answer["killed"]), failure=_Failure(**failure) if failure else None)


def _possible(step: Step, hierarchy: Hierarchy) -> Step:
    """The step without the files of controllers that are not delegated; a kubelet there writes none of them either."""
    return replace(step, writes=tuple(write for write in step.writes if not hierarchy.lacks(write[0])))


def _ask(tree: CgroupTree, request: Mapping[str, object], *, deadline: Deadline) -> Any:
    where = tree.target.address
    result = tree.target.run(program().once, stdin=program().stdin(request), deadline=deadline)
    if result.status == _NOT_FOUND:
        raise MissingProgramError(
            "enforcement needs 'python3' there, but it was not found.",
            where=where,
            next_step="Install the package python3.",
        )
    answer = json.loads(checked(result, where=where).stdout)
    if "error" in answer:
        raise TargetError(f"the agent failed: {answer['error'][-600:]}", where=where)
    return answer


def _as_json(step: Step) -> dict[str, object]:
    return {
        "action": str(step.action),
        "path": str(step.path),
        "unit": step.unit,
        "properties": _properties(step.properties),
        "writes": [list(write) for write in step.writes],
        "making": _properties(step.making),
        "keeps": list(step.keeps),
        "keeps_properties": list(step.keeps_properties),
    }


def _properties(found: Iterable[Property]) -> list[list[object]]:
    return [
        [item.name, item.signature, list(item.value) if isinstance(item.value, tuple) else item.value] for item in found
    ]
