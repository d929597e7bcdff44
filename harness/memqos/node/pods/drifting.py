"""Drift of what is above containers: a foreign write to a pod's cgroup, and what the enactor does about it."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import PlannedCgroup
from memqos.engine.subject import Subject
from memqos.errors import UsageError
from memqos.model.knob import MAX, Absent, Bytes, Knob
from memqos.model.pod import Pod

__all__ = ["drift_finding", "write_over"]

WRITING_SECONDS = 60.0


def write_over(tree: CgroupTree, cgroup: PlannedCgroup, *, page_size: int) -> Knob:
    """Have one memory file of a pod's cgroup hold something else, behind everybody's back; which one it was.

    A limit goes and a protection comes, so that nothing is killed and no page is taken. Raises UsageError for a cgroup
    whose plan says nothing of memory.
    """
    for knob, foreign in ((Knob.MEMORY_MAX, MAX), (Knob.MEMORY_LOW, Bytes(page_size)), (Knob.MEMORY_MIN, Bytes(0))):
        expected = cgroup.knobs.get(knob)
        if expected is not None and not isinstance(expected.written, Absent) and expected.value != foreign:
            tree.write(cgroup.path, knob, str(foreign), deadline=Deadline.after(WRITING_SECONDS))
            return knob
    raise UsageError(f"no memory of {cgroup.path} is planned.", next_step="Take a pod with limits.")


def drift_finding(found: Sequence[Finding], pod: Pod, knob: Knob, setter: Setter) -> Finding:
    """What a look after the foreign write says: this file deviates, and nothing else of the pod.

    found: of the pod and its containers. setter: what made the pod's cgroup.
    """
    drifted = ", ".join(sorted(f"{one.subject}: {one.knob}" for one in found if one.verdict is Verdict.DEVIATES))
    of_the_pod = [one for one in found if one.knob == knob and one.verdict is Verdict.DEVIATES]
    expected = f"{of_the_pod[0].subject if of_the_pod else f'pod {pod.name}'}: {knob}"
    return Finding(
        verdict=Verdict.CONFORMS if drifted == expected else Verdict.DEVIATES,
        subject=Subject.of_pod(pod.namespace, pod.name),
        cgroup=of_the_pod[0].cgroup if of_the_pod else "",
        knob="drift",
        set_by=setter,
        expected=expected,
        observed=drifted or "nothing",
    )
