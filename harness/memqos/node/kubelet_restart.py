"""Findings about the levels above pods while a real kubelet restarts: whether their protection stays in force."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, Verdict, subject_of
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import EnactorNotAbleError
from memqos.model.knob import Absent, Knob
from memqos.probe.looks import Look, Said
from memqos.probe.sampler import Sampler
from memqos.threads import repeatedly

__all__ = ["ProtectionWatch", "protected_classes", "protection_watched"]

_EVERY_SECONDS = 0.1
_CALL_SECONDS = 60.0
_PROTECTIONS = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
_WHEN = "while the kubelet restarts"


def protected_classes(plan: Plan) -> list[tuple[PlannedCgroup, Knob]]:
    """The planned protection above zero of each QoS class's cgroup.

    EnactorNotAbleError for a configuration that protects no class.
    """
    if not (found := _protected(plan.qos)):
        raise EnactorNotAbleError(
            "this configuration protects no QoS class.", next_step="Set memoryReservationPolicy: TieredReservation."
        )
    return found


def _protected(cgroups: Sequence[PlannedCgroup]) -> list[tuple[PlannedCgroup, Knob]]:
    return [
        (cgroup, knob)
        for cgroup in cgroups
        for knob in _PROTECTIONS
        if knob in cgroup.knobs
        and not isinstance(cgroup.knobs[knob].written, Absent)
        and str(cgroup.knobs[knob].value) != "0"
    ]


@dataclass(slots=True)
class ProtectionWatch:
    """memory.min and memory.low of kubepods and the QoS classes, as seen from inside the machine."""

    plan: Plan
    hierarchy: Hierarchy
    said: list[Said] = field(default_factory=list)

    def stays(self) -> Sequence[Finding]:
        """Each protection above zero held its planned value all the time.

        The watch reads the files ten times a second: a value that lasted less may be missed. EnactorNotAbleError as in
        `protected_classes`.
        """
        protected_classes(self.plan)
        return [self._stays(cgroup, knob) for cgroup, knob in _protected([self.plan.node, *self.plan.qos])]

    def _stays(self, cgroup: PlannedCgroup, knob: Knob) -> Finding:
        folder, expected = self.hierarchy.folder(cgroup.path), str(cgroup.knobs[knob].value)
        looks = [one for one in self.said if isinstance(one, Look) and one.folder == folder]
        seen = [(one.at, _shown(one, knob)) for one in looks if knob in one.files or one.why == "gone"]
        others = list(dict.fromkeys(text for _, text in seen if text != expected))
        why_not = "" if seen else f"{knob} was not read."
        if seen and seen[0][1] != expected:
            why_not = f"before the restart {knob} was {seen[0][1]}."
        return Finding(
            verdict=Verdict.of(not others, why_not=why_not),
            subject=subject_of(cgroup).at(_WHEN),
            cgroup=str(cgroup.path),
            knob=knob,
            set_by=Setter.KUBELET,
            expected=expected,
            observed=", ".join(others) if others else expected,
            why_not=why_not,
            evidence={"values": " ".join(f"{at - seen[0][0]:.1f}s:{text}" for at, text in seen)},
        )


def _shown(look: Look, knob: Knob) -> str:
    text = look.files.get(knob)
    return "no file" if text is None else text.strip()


@contextlib.contextmanager
def protection_watched(sampler: Sampler, hierarchy: Hierarchy, plan: Plan) -> Iterator[ProtectionWatch]:
    """Until the context ends, the levels above pods are watched. MachineryError if the watch itself ends before."""
    watch = ProtectionWatch(plan, hierarchy)
    with sampler.open([plan.node.path], list(_PROTECTIONS)) as sampling:
        watch.said += sampling.look(deadline=Deadline.after(_CALL_SECONDS))

        def read() -> None:
            # The sampling's buffer does not hold what it says for minutes.
            watch.said.extend(sampling.next(seconds=0))

        with repeatedly(read, every=_EVERY_SECONDS, name="memqos protection"):
            yield watch
        watch.said += sampling.look(deadline=Deadline.after(_CALL_SECONDS))
