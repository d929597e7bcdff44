"""Plans, differences, errata, findings and protection as text."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from memqos.engine.answer.difference import differences, differences_text
from memqos.engine.answer.explain import failure, knob_reasons, plan_tree, translations_text
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.cgroup.protection import CgroupProtection, planned_protection, protection_text
from memqos.engine.plan import Plan
from memqos.engine.releases.errata import errata_text
from memqos.engine.translate.explain import Language
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, KubeletSettings
from memqos.model.pod import Pod
from tests.golden.reasons.nodes import ON, PLANS, PODS, TIERED, V1, Planned
from tests.golden.reasons.plans import kubelet_of, plan_of

MIB = 1 << 20
PLANNED = {planned.title: planned for planned in PLANS}
FEW = (PODS[1], PODS[8])
"""A Burstable pod, and one with a sidecar and overhead."""
ZONED = "1.36, zones"
ON_V1 = "1.22 on cgroup v1, swap limited"
RESERVED = "1.36, tiered, everything reserved"
WITHOUT_ROOM = "1.36, pods without room"
CRUN = Runtimes(cri=traits_of("cri-o", "1.34.1"), oci=traits_of("crun", "1.8.1"), hugetlb=True)
TRANSLATED: dict[str, dict[str, Any]] = {
    "containerd and runc": {"runtimes": TRIXIE, "release": "1.34", "settings": ON},
    "cri-o and crun": {"runtimes": CRUN, "release": "1.36", "settings": TIERED},
    "CPUs of its own": {
        "runtimes": TRIXIE,
        "release": "1.36",
        "settings": KubeletSettings(cpu_manager_policy="static", feature_gates={"MemoryQoS": False}),
        "pods": PODS[:1],
    },
    "cgroup v1": {"runtimes": TRIXIE, "release": "1.30", "settings": ON, "node": V1},
}
KNOBS = (Knob.MEMORY_MAX, Knob.MEMORY_HIGH, Knob.CPU_MAX, Knob.HUGETLB_2MB_MAX, Knob.MEMORY_LIMIT_IN_BYTES)
PAIRS = (
    (ZONED, "1.37, the defaults"),
    ("1.37, the defaults", ZONED),
    ("1.32, pod-level resources, swap limited", ON_V1),
)


def few(title: str, pods: tuple[Pod, ...] = FEW) -> Plan:
    """One of the plans of the other books, for a few pods."""
    return plan_of(replace(PLANNED[title], pods=pods))


def translated(title: str) -> Planned:
    """A plan of a few pods, each container in every language."""
    given = dict(TRANSLATED[title])
    more = {"runtimes": given.pop("runtimes"), "driver": CgroupDriver.SYSTEMD}
    return Planned(title=title, more=more, **{"pods": (PODS[1], PODS[4]), **given})


def compared(pair: tuple[str, str]) -> tuple[Plan, Plan]:
    """Two plans to compare: the first lacks the second's third pod."""
    return few(pair[0], (*FEW, PODS[2])), few(pair[1])


def reclassed() -> tuple[Plan, Plan]:
    """A plan of a BestEffort pod, and one of the same pod as Burstable."""
    one = replace(PODS[2], containers=(replace(PODS[2].containers[0], resources=PODS[3].containers[0].resources),))
    return few(ZONED, (PODS[2],)), few(ZONED, (one,))


def protections() -> dict[str, tuple[CgroupProtection, ...]]:
    tiered, scoped = few(RESERVED, PODS[:3]), translated("cri-o and crun")
    scoped = replace(scoped, node=replace(scoped.node, page_size=65536))
    return {
        "assumed": planned_protection(tiered, kubelet_of(PLANNED[RESERVED])),
        "given": planned_protection(
            tiered,
            kubelet_of(PLANNED[RESERVED]),
            {("guaranteed", "g"): 10 * MIB, ("burstable", "b"): 150 * MIB, ("plain", "p"): MIB},
        ),
        "below a scope": planned_protection(plan_of(scoped), kubelet_of(scoped)),
    }


def findings() -> Iterator[str]:
    reason = few(ZONED).node.knobs[Knob.MEMORY_MAX].reason
    for verdict in Verdict:
        found = Finding(
            subject=Subject.of_container("c", "default/p"),
            cgroup="/kubepods/podp",
            knob="memory.max",
            set_by=Setter.RUNTIME,
            expected="100",
            observed="200",
            verdict=verdict,
            reason=reason,
            why_not="no such file" if verdict is Verdict.NOT_OBSERVABLE else "",
            evidence={"memory.current": "300"},
        )
        yield failure(found)
        yield failure(replace(found, knob="memory.limit_in_bytes", reason=None), mount="/mnt")
        yield failure(replace(found, cgroup="not known"))
        yield failure(replace(found, cgroup="/"))


def trees() -> Iterator[str]:
    for title in (ZONED, ON_V1, RESERVED):
        yield f"== tree, {title}"
        yield plan_tree(few(title))
    yield "== tree, processes limited"
    yield plan_tree(few("1.36, one CPU, processes limited", PODS[1:2]))
    yield "== tree, pods without room"
    yield plan_tree(plan_of(PLANNED[WITHOUT_ROOM]))
    yield f"== {Knob.CPUSET_MEMS}, {ZONED}"
    yield knob_reasons(few(ZONED), Knob.CPUSET_MEMS)


def languages() -> Iterator[str]:
    for title in TRANSLATED:
        plan, kubelet = plan_of(translated(title)), kubelet_of(translated(title))
        yield f"== translations, {title}"
        yield translations_text(plan, (*Language, Language.CRI), kubelet)
        for knob in KNOBS:
            yield f"== {knob}, {title}"
            yield knob_reasons(plan, knob, translated_for=kubelet)


def changes() -> Iterator[str]:
    for pair in PAIRS:
        yield f"== from {pair[0]} to {pair[1]}"
        yield differences_text(differences(*compared(pair)), *pair)
    yield "== another class"
    yield differences_text(differences(*reclassed()), "before", "after")


def judged() -> Iterator[str]:
    yield "== findings"
    yield from findings()
    for title, found in protections().items():
        yield f"== protection, {title}"
        yield protection_text(found)
    yield "== errata"
    yield errata_text()
