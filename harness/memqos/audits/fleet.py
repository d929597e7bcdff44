"""Audits of many nodes: a row for each node, and the findings of all nodes grouped by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memqos.audits.answer import Audit, State
from memqos.audits.node_state import InForce, in_force
from memqos.engine.answer.document import FORMAT
from memqos.engine.answer.explain import one_line
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import ExitCode, MemqosError

__all__ = ["Cause", "Drift", "Fleet", "NodeRow", "row_of", "row_of_error"]

_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A deviating or known finding, in a form small enough for thousands of nodes."""

    verdict: str
    subject: str
    level: str
    pod: str
    cgroup: str
    knob: str
    expected: str
    observed: str
    rule: str
    set_by: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node. place: its name on the command line. error: why it was not judged, "" if it was. code: exit code.

    counts: findings by verdict. pods: pods by state. unseen: the reasons for *not observable*, with counts. notes:
    unreadable parts. states: by pod its state.
    """

    place: str
    name: str = ""
    release: str = ""
    state: State = State.INSUFFICIENT_EVIDENCE
    code: int = int(ExitCode.NOTHING_OBSERVED)
    error: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)
    memory_qos: InForce | None = None
    drifts: tuple[Drift, ...] = ()
    unseen: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)


def row_of(place: str, audit: Audit) -> NodeRow:
    """The row of an audited node."""
    shown = (*audit.of(Verdict.DEVIATES), *audit.of(Verdict.KNOWN))
    return NodeRow(
        place=place,
        name=audit.question.tree.node_name or place,
        release=audit.plan.release,
        state=audit.state,
        code=int(audit.exit_code),
        counts={verdict.value: count for verdict, count in audit.counts.items()},
        pods=Counter(state.value for state in audit.pods.values()),
        memory_qos=in_force(audit),
        drifts=tuple(map(_drift, shown)),
        unseen=Counter(one.why_not for one in audit.of(Verdict.NOT_OBSERVABLE)),
        notes=audit.question.tree.notes,
        states={name: state.value for name, state in audit.pods.items()},
    )


def row_of_error(place: str, error: MemqosError) -> NodeRow:
    """The row of a node that could not be judged."""
    return NodeRow(place=place, name=place, code=int(error.exit_code), error=one_line(str(error)))


def _drift(finding: Finding) -> Drift:
    hints = (finding.evidence.get(name, "") for name in ("not the kubelet's value", "known", "perhaps"))
    return Drift(
        verdict=finding.verdict.value,
        subject=str(finding.subject),
        level=finding.subject.level.value,
        pod=finding.subject.pod,
        cgroup=finding.cgroup,
        knob=finding.knob,
        expected=finding.expected,
        observed=finding.observed,
        rule=finding.reason.rule if finding.reason is not None else "",
        set_by=finding.set_by.value,
        hint=next(filter(None, hints), ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause: findings about the same file at the same level, by the same rule, on any nodes.

    pods, nodes: how many; examples: some of the findings, each with its node.
    """

    verdict: str
    knob: str
    level: str
    rule: str
    set_by: str
    hint: str
    pods: int
    nodes: int
    findings: int
    examples: tuple[tuple[str, Drift], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All nodes, in the order in which they were named."""

    rows: tuple[NodeRow, ...]

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes, those on the most nodes first, deviations before known ones."""
        found: dict[tuple[str, ...], list[tuple[NodeRow, Drift]]] = {}
        for row in self.rows:
            for one in row.drifts:
                key = (one.verdict, one.knob, one.level, one.rule, one.set_by, one.hint)
                found.setdefault(key, []).append((row, one))
        causes = (_cause(key, given) for key, given in found.items())
        return tuple(sorted(causes, key=lambda one: (one.verdict, -one.nodes, -one.findings, one.knob)))

    @property
    def states(self) -> Mapping[str, int]:
        """The number of judged nodes by state."""
        counted = Counter(row.state.value for row in self.rows if not row.error)
        return {state.value: counted[state.value] for state in State}

    @property
    def exit_code(self) -> ExitCode:
        """1 if a node deviates; else the code of the first node that could not be judged; 5 if nothing was observed."""
        codes = [row.code for row in self.rows]
        if ExitCode.DEVIATES in codes:
            return ExitCode.DEVIATES
        failed = next((row.code for row in self.rows if row.error), None)
        if failed is not None:
            return ExitCode(failed)
        if ExitCode.MACHINERY in codes:
            return ExitCode.MACHINERY
        return ExitCode.CONFORMS if ExitCode.CONFORMS in codes else ExitCode.NOTHING_OBSERVED

    def text(self) -> str:
        """The text: a row for each node, the causes, and the nodes that were not judged."""
        parts = ["\n".join(_table(self.rows))]
        parts += ["\n".join(_cause_lines(one)) for one in self.causes]
        parts += [f"{row.place}: not judged: {row.error}" for row in self.rows if row.error]
        unseen: Counter[str] = Counter()
        nodes: Counter[str] = Counter()
        for row in self.rows:
            unseen.update(row.unseen)
            nodes.update(dict.fromkeys(row.unseen, 1))
        parts += [
            one_line(f"not observable: {_many(count, 'value')} on {_nodes(nodes[why])}: {why}")
            for why, count in unseen.most_common(10)
        ]
        told = ", ".join(f"{count} {state}" for state, count in self.states.items() if count)
        failed = sum(bool(row.error) for row in self.rows)
        more = f", {failed} not judged" if failed else ""
        parts.append(f"{_nodes(len(self.rows))}: {told}{more}" if told else f"{_nodes(len(self.rows))}{more}")
        return "\n\n".join(parts)

    def document(self) -> dict[str, Any]:
        """The fleet's audit as JSON."""
        return {
            "memqos_format": FORMAT,
            "states": dict(self.states),
            "exit_code": int(self.exit_code),
            "nodes": [_row_document(row) for row in self.rows],
            "causes": [_cause_document(one) for one in self.causes],
        }


def _cause(key: Sequence[str], given: Sequence[tuple[NodeRow, Drift]]) -> Cause:
    verdict, knob, level, rule, set_by, hint = key
    return Cause(
        verdict=verdict,
        knob=knob,
        level=level,
        rule=rule,
        set_by=set_by,
        hint=hint,
        pods=len({(row.place, one.pod) for row, one in given if one.pod}),
        nodes=len({row.place for row, _ in given}),
        findings=len(given),
        examples=tuple((row.name, one) for row, one in given[:_MOST]),
    )


def _table(rows: Iterable[NodeRow]) -> Iterator[str]:
    heads = ("node", "kubelet", "state", "pods", "conform", "deviate", "known", "not observable", "MemoryQoS")
    lines = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    for line in lines:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _cells(row: NodeRow) -> tuple[str, ...]:
    if row.error:
        return (one_line(row.name), "-", "not judged", "-", "-", "-", "-", "-", "-")
    counts = (str(row.counts.get(name, 0)) for name in ("conforms", "deviates", "known", "not observable"))
    force = row.memory_qos.force.value if row.memory_qos is not None else "-"
    return (one_line(row.name), row.release, row.state.value, str(sum(row.pods.values())), *counts, force)


def _cause_lines(one: Cause) -> Iterator[str]:
    of = f"{_many(one.pods, 'pod')} on {_nodes(one.nodes)}" if one.pods else _nodes(one.nodes)
    yield f"{one.knob} at the level {one.level} {_VERBS.get(one.verdict, one.verdict)}: {of}"
    if one.rule:
        yield f"  rule     {one.rule}"
    yield f"  set by   {one.set_by}"
    if one.hint:
        yield one_line(f"  possibly {one.hint}")
    for node, drift in one.examples:
        yield one_line(f"  {node}: {drift.subject} has {drift.observed}, expected {drift.expected}")
    if one.findings > len(one.examples):
        yield f"  and {one.findings - len(one.examples)} more"


_VERBS = {Verdict.DEVIATES.value: "deviates", Verdict.KNOWN.value: "deviates as known"}


def _nodes(count: int) -> str:
    return _many(count, "node")


def _many(count: int, word: str) -> str:
    return f"1 {word}" if count == 1 else f"{count} {word}s"


def _row_document(row: NodeRow) -> dict[str, Any]:
    force = row.memory_qos
    return {
        "place": row.place,
        "node": row.name,
        "release": row.release,
        "state": row.state.value,
        "exit_code": row.code,
        "error": row.error,
        "counts": dict(row.counts),
        "pods": dict(row.pods),
        "memory_qos": None if force is None else {"on": force.on, "force": force.force.value, "why": force.why},
        "drifts": [_drift_document(one) for one in row.drifts],
        "not_observable": dict(row.unseen),
        "notes": dict(row.notes),
    }


def _drift_document(one: Drift) -> dict[str, str]:
    return {
        "verdict": one.verdict,
        "state": State.DRIFTED.value,
        "subject": one.subject,
        "cgroup": one.cgroup,
        "knob": one.knob,
        "expected": one.expected,
        "observed": one.observed,
        "rule": one.rule,
        "set_by": one.set_by,
        "hint": one.hint,
    }


def _cause_document(one: Cause) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "knob": one.knob,
        "level": one.level,
        "rule": one.rule,
        "set_by": one.set_by,
        "hint": one.hint,
        "pods": one.pods,
        "nodes": one.nodes,
        "findings": one.findings,
        "examples": [{"node": node, **_drift_document(drift)} for node, drift in one.examples],
    }
