"""The same examples on two systems, without the engine's word: what differs and no known trait explains."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from memqos.engine.answer.finding import Finding, Setter
from memqos.exploration.examples import Example
from memqos.exploration.judging import Tried
from memqos.exploration.session import Tries
from memqos.node.requests.differential import differences

__all__ = ["Comparing"]


class Comparing:
    """Tries examples on two systems, and finds what they do differently.

    names: of the two systems in findings.
    """

    def __init__(self, one: Tries, other: Tries, names: tuple[str, str]) -> None:
        self._one = one
        self._other = other
        self._names = names

    def try_all(self, examples: Sequence[Example], *, alone: bool = False) -> Sequence[Tried]:
        """The differences of each example."""
        mine = self._one.try_all(examples, alone=alone)
        others = self._other.try_all(examples, alone=alone)
        return [self._compared(one, other) for one, other in zip(mine, others, strict=True)]

    def _compared(self, one: Tried, other: Tried) -> Tried:
        """Where either was skipped or did not come up, nothing is compared."""
        if one.skipped or other.skipped or one.trouble or other.trouble:
            return dataclasses.replace(
                one, findings=(), above=(), skipped=one.skipped or other.skipped, trouble=one.trouble or other.trouble
            )
        kind = str(one.example.kind)
        found = list(differences(kind, _of_runtimes(one.findings), _of_runtimes(other.findings), self._names))
        return dataclasses.replace(one, findings=found, above=(), containers=one.containers + other.containers)


def _of_runtimes(findings: Sequence[Finding]) -> Sequence[Finding]:
    """What memqos itself wrote is the same on both."""
    return [one for one in findings if one.set_by is not Setter.MEMQOS]
