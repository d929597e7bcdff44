"""A fleet's audit in the formats of other programs: Prometheus text, JUnit XML and SARIF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memqos.audits.answer import State
from memqos.audits.fleet import Cause, Drift, Fleet, NodeRow
from memqos.audits.node_state import Force, NodeState
from memqos.version import __version__

__all__ = ["junit_text", "metrics_text", "sarif_document"]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"deviates": "error", "known": "note"}


def metrics_text(fleet: Fleet, states: Mapping[str, NodeState]) -> str:
    """The text format of Prometheus, for node_exporter's textfile collector. states: the known states by node.

    Source: prometheus.io/docs/instrumenting/exposition_formats.
    """
    return "\n".join([*_of_rows(fleet.rows), *_of_states(fleet.rows, states)]) + "\n"


def _of_rows(rows: Iterable[NodeRow]) -> Iterator[str]:
    given = tuple(rows)
    yield from _head("memqos_audit_judged", "Whether the node could be judged.")
    yield from (_line("memqos_audit_judged", int(not row.error), node=row.name) for row in given)
    yield from _head("memqos_audit_findings", "Interface files by verdict.")
    for row in given:
        for verdict, count in row.counts.items():
            yield _line("memqos_audit_findings", count, node=row.name, verdict=verdict)
    yield from _head("memqos_audit_pods", "Pods by state (kubernetes#141286).")
    for row in given:
        for state in State if not row.error else ():
            yield _line("memqos_audit_pods", row.pods.get(state.value, 0), node=row.name, state=state.value)
    yield from _head("memqos_memory_qos_in_force", "Whether memory QoS is in force: 1 if all of its files hold.")
    for row in given:
        if row.memory_qos is not None:
            held = int(row.memory_qos.force is Force.IN_FORCE)
            yield _line("memqos_memory_qos_in_force", held, node=row.name, force=row.memory_qos.force.value)


def _of_states(rows: Iterable[NodeRow], states: Mapping[str, NodeState]) -> Iterator[str]:
    known = [(row.name, states[row.place]) for row in rows if row.place in states]
    names = {
        "memqos_container_effective_memory_high_bytes": "The least memory.high of a container and its ancestors.",
        "memqos_container_memory_high_bytes": "memory.high of a container.",
        "memqos_container_memory_bytes": "memory.current of a container.",
    }
    for name, text in names.items():
        yield from _head(name, text)
        for node, state in known:
            for one in state.thresholds:
                amounts = (one.high, one.own, one.usage)
                amount = dict(zip(names, amounts, strict=True))[name]
                if amount is not None:
                    pod = one.subject.pod
                    yield _line(name, amount, node=node, pod=pod, container=one.subject.container)
    yield from _head("memqos_cgroup_protected_bytes", "Bytes of the usage that memory.min and memory.low protect.")
    for node, state in known:
        for worth in state.worth:
            protected = worth.counts.hard + worth.counts.soft
            yield _line("memqos_cgroup_protected_bytes", protected, node=node, cgroup=worth.cgroup)
    yield from _head("memqos_held_up", "Cgroups that are throttled, thrash or stall now.")
    for node, state in known:
        for stall in state.stalls:
            yield _line("memqos_held_up", 1, node=node, cgroup=stall.cgroup, kind=stall.kind)


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"


def _line(name: str, value: int, **labels: str) -> str:
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{told}}} {value}"


def _escaped(text: str) -> str:
    """A label's value: backslash, quote and line feed are escaped, other control characters are written out."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(char if char.isprintable() else f"\\\\x{ord(char):02x}" for char in plain)


def junit_text(fleet: Fleet) -> str:
    """JUnit XML: a suite for each node, a case for each pod and one for the cgroups above pods.

    A pod without enough evidence is skipped; a node that could not be judged is an error.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<testsuites name="memqos audit">']
    for row in fleet.rows:
        lines += _suite(row)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(row: NodeRow) -> Iterator[str]:
    drifts: dict[str, list[Drift]] = {}
    for one in row.drifts:
        drifts.setdefault(one.pod, []).append(one)
    above = State.DRIFTED.value if "" in drifts else State.FULFILLED.value
    cases = {} if row.error else {**row.states, "the node": above}
    failed = sum(state == State.DRIFTED.value for state in cases.values())
    skipped = sum(state == State.INSUFFICIENT_EVIDENCE.value for state in cases.values())
    errors = int(bool(row.error))
    counts = f'tests="{len(cases) + errors}" failures="{failed}" errors="{errors}" skipped="{skipped}"'
    yield f'<testsuite name="{_xml(row.name)}" {counts}>'
    if row.error:
        yield f'<testcase classname="{_xml(row.name)}" name="the node"><error message="{_xml(row.error)}"/></testcase>'
    for name, state in cases.items():
        told = "; ".join(
            f"{one.knob} of {one.subject} is {one.observed}, expected {one.expected}"
            for one in drifts.get("" if name == "the node" else name, ())
        )
        inner = {
            State.DRIFTED.value: f'<failure message="{_xml(told)}"/>',
            State.INSUFFICIENT_EVIDENCE.value: f'<skipped message="{state}"/>',
        }.get(state, "")
        yield f'<testcase classname="{_xml(row.name)}" name="{_xml(name)}">{inner}</testcase>'
    yield "</testsuite>"


def _xml(text: str) -> str:
    """Text for an XML attribute; XML 1.0 allows no other control characters than these."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def sarif_document(fleet: Fleet) -> dict[str, Any]:
    """SARIF 2.1.0: a rule for each cause, a result for each finding. Source: OASIS sarif-v2.1.0."""
    causes = fleet.causes
    keys = {_key(one): f"memqos/{one.knob}/{number}" for number, one in enumerate(causes, 1)}
    return {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "memqos",
                        "version": __version__,
                        "rules": [_rule(one, keys[_key(one)]) for one in causes],
                    }
                },
                "results": list(_results(fleet, keys)),
                "invocations": [
                    {
                        "executionSuccessful": not any(row.error for row in fleet.rows),
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": f"{row.place}: {row.error}"}}
                            for row in fleet.rows
                            if row.error
                        ],
                    }
                ],
            }
        ],
    }


def _key(one: Any) -> tuple[str, ...]:
    return (one.verdict, one.knob, one.level, one.rule, one.set_by, one.hint)


def _rule(cause: Cause, name: str) -> dict[str, Any]:
    text = cause.rule or f"{cause.knob} at the level {cause.level} holds what the kubelet's rules require"
    return {"id": name, "shortDescription": {"text": text}, "properties": {"nodes": cause.nodes, "pods": cause.pods}}


def _results(fleet: Fleet, keys: Mapping[tuple[str, ...], str]) -> Iterator[dict[str, Any]]:
    for row in fleet.rows:
        for one in row.drifts:
            where = f"{row.name}{one.cgroup}/{one.knob}"
            yield {
                "ruleId": keys[_key(one)],
                "level": _LEVELS.get(one.verdict, "warning"),
                "message": {
                    "text": f"{one.knob} of {one.subject} is {one.observed}, expected {one.expected} ({row.name})"
                },
                "locations": [
                    {
                        "physicalLocation": {"artifactLocation": {"uri": _uri(where)}},
                        "logicalLocations": [{"fullyQualifiedName": where, "kind": "resource"}],
                    }
                ],
            }


def _uri(path: str) -> str:
    """A path as a relative URI reference, percent-encoded."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
    return "".join(
        char if char in safe else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace")) for char in path
    )
