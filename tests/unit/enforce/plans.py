"""Small plans for the tests of enforcement: knobs given, reasons left out."""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.cgroup.layout import Layout
from memqos.engine.plan import Expected, Level, Plan, PlannedCgroup, PlannedPod, Reason
from memqos.model.knob import Knob, KnobValue
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass

NO_REASON = Reason(rule="", revision="", source="")
Written = Mapping[Knob, KnobValue]

NAMES = {
    CgroupDriver.CGROUPFS: ("/kubepods", "/kubepods/burstable", "/kubepods/burstable/pod{}", "/kubeletreserved"),
    CgroupDriver.SYSTEMD: (
        "/kubepods.slice",
        "/kubepods.slice/kubepods-burstable.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
        "/kubeletreserved.slice",
    ),
}


def cgroup(level: Level, path: str, written: Written, *, pod: str = "") -> PlannedCgroup:
    knobs = {knob: Expected(knob=knob, written=value, value=value, reason=NO_REASON) for knob, value in written.items()}
    qos = QosClass.BURSTABLE if level in {Level.QOS, Level.POD} else None
    return PlannedCgroup(level=level, path=CgroupPath.parse(path), knobs=knobs, qos=qos, pod=pod)


def plan(
    driver: CgroupDriver,
    *,
    node: Written | None = None,
    qos: Written | None = None,
    pods: Mapping[str, Written] | None = None,
    reserved: Written | None = None,
) -> Plan:
    """A plan with kubepods, one QoS class, these pods, and a reserved cgroup if it is given knobs."""
    kubepods, burstable, pod, spare = NAMES[driver]
    return Plan(
        release="1.27",
        layout=Layout(driver=driver),
        revisions={},
        node=cgroup(Level.NODE, kubepods, node or {}),
        qos=(cgroup(Level.QOS, burstable, qos or {}),),
        reserved=() if reserved is None else (cgroup(Level.RESERVED, spare, reserved),),
        pods=tuple(
            PlannedPod(
                name=uid,
                namespace="default",
                uid=uid,
                qos=QosClass.BURSTABLE,
                qos_reason=NO_REASON,
                cgroup=cgroup(Level.POD, pod.format(uid), written, pod=uid),
                containers=(),
            )
            for uid, written in (pods or {}).items()
        ),
    )
