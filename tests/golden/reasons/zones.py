"""Decisions of the Memory Manager and the Topology Manager about pods, and their errors at a kubelet's start."""

import json
from collections.abc import Iterator
from dataclasses import replace

from memqos.engine.answer.explain import reason_lines
from memqos.engine.numa.admit import Admitted, admit, release
from memqos.engine.numa.draft_2020 import draft_admit, draft_start
from memqos.engine.numa.state import StartRefusal, restore
from memqos.engine.plan import Reason
from memqos.model.node import NodeFacts, NumaNode
from memqos.model.pod import QosClass
from tests.checkpoints import checkpoint_text
from tests.unit.engine.numa.builders import (
    GIB,
    MANAGED,
    MIB,
    container,
    init,
    machine,
    placed,
    plain,
    pod,
    policies,
    sidecar,
)

PODS = (
    plain("small", "1Gi"),
    plain("wide", "5Gi"),
    plain("huge", "50Gi"),
    pod("pages", container("c", "1Gi", hugepages_2Mi="8Mi")),
    pod("late", init("i", "3Gi"), sidecar("s", "1Gi"), container("c", "1Gi")),
    pod("odd", container("c", "1.5")),
    pod("burstable", container("c", "1Gi", limit="2Gi")),
    pod("whole", container("c", "1Gi"), container("d"), total="3Gi"),
    pod("full", container("c", "3Gi"), container("d"), total="3Gi"),
    pod("beyond", init("i", "2Gi"), sidecar("s", "2Gi"), container("c"), total="3Gi"),
    pod("none left", sidecar("s", "3Gi"), init("i"), container("c", "0"), total="3Gi"),
)
ODD = (
    pod("odd in all", container("c", "1Gi"), container("d"), total="1.5"),
    pod("odd in part", container("c", "1.5"), container("d"), total="3Gi"),
)


def said(title: str, reasons: dict[str, Reason], *more: str) -> str:
    lines = [title, *more]
    for name, reason in reasons.items():
        lines += [f"  {name}", *reason_lines(reason, indent="    ")]
    return "\n".join(lines)


def outcome(title, own, table, rules) -> str:
    found = admit(own, table=table, policies=rules)
    if isinstance(found, Admitted):
        return said(f"{title}: {dict(found.cpuset_mems)}", dict(found.reasons))
    return said(f"{title}: {found.reason_name} of {found.pod}", {"refused": found.reason}, f"  {found.message}")


def admissions() -> Iterator[str]:
    for rules in (
        policies("none"),
        policies("single-numa-node"),
        policies("restricted", "pod", gates=MANAGED),
    ):
        title = f"{rules.topology}, {rules.scope}, {rules.release}"
        for own in PODS:
            yield outcome(f"{title}, {own.name}", own, machine(4, 4, pages=8), rules)
        wide = placed(machine(4, 4), policies(), plain("other", "5Gi"))
        yield outcome(f"{title}, with a pod on both NUMA nodes", plain("one", "1Gi"), wide, rules)
        narrow = placed(machine(4, 4), policies(), plain("other", "1Gi"))
        yield outcome(f"{title}, again", plain("other", "1Gi"), narrow, rules)
        yield outcome(f"{title}, wide, with a pod on one NUMA node", plain("one", "6Gi"), narrow, rules)
    for policy in ("restricted", "best-effort"):
        for own in (*ODD, PODS[8], PODS[9]):
            yield outcome(f"{policy}, {own.name}", own, machine(4, 4), policies(policy, "pod", gates=MANAGED))
    again = placed(machine(8), policies("restricted", "pod", gates=MANAGED), PODS[7])
    found = admit(PODS[7], table=again, policies=policies("restricted", "pod", gates=MANAGED))
    yield said(f"whole, again: {dict(found.cpuset_mems)}", dict(found.reasons))
    yield f"gone: {release('whole', again) == machine(8)}"


def draft() -> Iterator[str]:
    facts = NodeFacts(
        memory=8 * GIB, numa_nodes=tuple(NumaNode(id=n, memory=4 * GIB, hugepages={2 * MIB: 8}) for n in (0, 1))
    )
    table = draft_start(facts, safety_zone=GIB, node_reservation=2 * GIB)
    for own, qos in (
        (plain("small", "1Gi"), QosClass.GUARANTEED),
        (PODS[3], QosClass.GUARANTEED),
        (plain("exact", "3056Mi"), QosClass.GUARANTEED),
        (plain("burstable", "1Gi"), QosClass.BURSTABLE),
    ):
        found = draft_admit(own, qos=qos, table=table)
        if hasattr(found, "cpuset_mems"):
            yield said(f"draft, {own.name}: {dict(found.cpuset_mems)}", dict(found.reasons))
            table = found.table
        else:
            yield said(
                f"draft, {own.name}: {found.reason_name} of {found.pod}",
                {"refused": found.reason},
                f"  {found.message}",
            )


def restarts() -> Iterator[str]:
    rules, fresh = policies(), machine(4, 4)
    table = placed(fresh, rules, plain("p", "1Gi"))
    text = checkpoint_text("Static", table)
    elsewhere = replace(table, assignments={"p": {"c0": (replace(table.assignments["p"]["c0"][0], numa_nodes=(7,)),)}})
    unknown = replace(
        table, assignments={"p": {"c0": (replace(table.assignments["p"]["c0"][0], kind="hugepages-1Gi"),)}}
    )
    for title, given, machine_, rules_ in (
        ("no JSON", "{", fresh, rules),
        ("a list", "[]", fresh, rules),
        ("another checksum", text.replace('"checksum":', '"checksum":1'), fresh, rules),
        ("no policy", json.dumps({**json.loads(text), "policyName": 3}), fresh, rules),
        ("another policy", checkpoint_text("None", table), fresh, rules),
        ("a zone more", text, machine(4, 4, 4), rules),
        ("a smaller zone", text, machine(4, 3), rules),
        ("pages", text, machine(4, 4, pages=3), rules),
        ("a block elsewhere", checkpoint_text("Static", elsewhere), fresh, rules),
        ("a block of another type", checkpoint_text("Static", unknown), fresh, rules),
    ):
        found = restore(given, machine_, rules_)
        if isinstance(found, StartRefusal):
            yield said(f"restart, {title}", {"refused": found.reason}, f"  {found.message}")
        else:
            yield f"restart, {title}: accepted"


def book() -> Iterator[str]:
    yield from admissions()
    yield from draft()
    yield from restarts()
