"""The same examples on two systems, compared without the engine: differences without a known trait."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from memqos.engine.answer.finding import Finding, Setter
from memqos.exploration.examples import Example
from memqos.exploration.judge import ExampleResult
from memqos.exploration.session import ExampleRunner
from memqos.node.requests.differential import differences

__all__ = ["Comparison"]


class Comparison:
    """Runs examples on two systems and reports their differences as findings.

    names: the two systems' names in findings.
    """

    def __init__(self, one: ExampleRunner, other: ExampleRunner, names: tuple[str, str]) -> None:
        self._one = one
        self._other = other
        self._names = names

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[ExampleResult]:
        """The differences of each example."""
        mine = self._one.try_all(examples, alone=alone)
        others = self._other.try_all(examples, alone=alone)
        return [self._compared(one, other) for one, other in zip(mine, others, strict=True)]

    def _compared(self, one: ExampleResult, other: ExampleResult) -> ExampleResult:
        """The comparison of one example; empty if a system skipped it or could not start its pods."""
        if one.skipped or other.skipped or one.trouble or other.trouble:
            return dataclasses.replace(
                one, findings=(), above=(), skipped=one.skipped or other.skipped, trouble=one.trouble or other.trouble
            )
        kind = str(one.example.kind)
        found = list(differences(kind, _of_runtimes(one.findings), _of_runtimes(other.findings), self._names))
        return dataclasses.replace(one, findings=found, above=(), containers=one.containers + other.containers)


def _of_runtimes(findings: Sequence[Finding]) -> Sequence[Finding]:
    """The findings about containers: memqos itself wrote the files above them on both systems."""
    return [one for one in findings if one.set_by is not Setter.MEMQOS]
