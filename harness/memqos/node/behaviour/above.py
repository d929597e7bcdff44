"""What the behaviour of several pods rests on above them: the files of kubepods and of the classes, and the mount.

A class that is protected by mistake hands that down to each of its pods, whose own files are as planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from memqos.cgroupfs.hierarchy import find_hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.plan import Reason, kernel_revision
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion
from memqos.model.path import ROOT
from memqos.model.reading import Reading
from memqos.node.pods.population import Population

__all__ = ["MOUNT_OPTION", "premises_above"]

MOUNT_OPTION = "memory_recursiveprot"

_REASON = Reason(
    rule="cgroups stay mounted as they were when the node was looked at, which the model of protection goes by",
    revision=kernel_revision(CgroupVersion.V2),
    source="kernel cgroup-v2.rst, memory_recursiveprot; kernel/cgroup/cgroup.c, cgroup_reconfigure",
)


def premises_above(
    population: Population, tree: CgroupTree, knobs: Collection[Knob], *, deadline: Deadline
) -> tuple[Finding, ...]:
    """These knobs of kubepods and of each QoS class, when the pods had been started and now; and the mount option.

    Of each knob the first deviation stands for both times. tree: as the node was known when its pods were admitted.
    """
    above = [cgroup for cgroup in (population.plan.node, *population.plan.qos) if cgroup.path != ROOT]
    now = tree.read_cgroups([one.path for one in above], [str(knob) for knob in knobs], deadline=deadline)
    readings = (population.reading, now)
    founds = [list(_judged(population, reading, knobs)) for reading in readings]
    files = tuple(_first_deviation(both) for both in zip(*founds, strict=True))
    return files if tree.hierarchy.version is CgroupVersion.V1 else (*files, _mounted(tree, deadline))


def _judged(population: Population, reading: Reading, knobs: Collection[Knob]) -> Iterator[Finding]:
    plan = population.plan
    for cgroup in (plan.node, *plan.qos):
        if cgroup.path != ROOT:
            name = verdict.subject(cgroup)
            found = verdict.judge_cgroup(cgroup, cgroup.path, name, reading, enacted_by=population.enacted_by)
            yield from (one for one in found if one.knob in knobs)


def _first_deviation(found: Sequence[Finding]) -> Finding:
    return next((one for one in found if one.verdict is Verdict.DEVIATES), found[-1])


def _mounted(tree: CgroupTree, deadline: Deadline) -> Finding:
    known = tree.hierarchy.is_recursive
    seen = find_hierarchy(tree.target, deadline=deadline).is_recursive
    words = {True: "on", False: "off"}
    return Finding(
        verdict=Verdict.CONFORMS if seen is known else Verdict.DEVIATES,
        subject="the cgroup file system",
        cgroup=str(ROOT),
        knob=MOUNT_OPTION,
        set_by=Setter.KERNEL if seen is known else Setter.OTHER,
        expected=words[known],
        observed=words[seen],
        reason=_REASON,
    )
