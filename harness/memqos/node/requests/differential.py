"""The same requests to two runtimes: their differences, and whether a named trait of either explains each.

The expected values of a container come from the model of its very runtime version. A wrong trait in that model would
let a wrong runtime conform. Here both runtimes get the same request, and files may differ only where the models do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from memqos.catalog.requests import AnyRequestCase
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.errors import NonconformanceError

__all__ = ["compared", "differences", "made"]

Judge = Callable[[AnyRequestCase], Sequence[Finding]]

_SAME = "the same with both"


def made(judge: Judge, cases: Iterable[AnyRequestCase]) -> Mapping[str, Sequence[Finding]]:
    """The files after these requests, by subject; a deviation that ends a case early is its only finding.

    Raises MachineryError if the runtime starts no container at all.
    """
    return {case.name: _judged(judge, case) for case in cases}


def _judged(judge: Judge, case: AnyRequestCase) -> Sequence[Finding]:
    try:
        return judge(case)
    except NonconformanceError as error:
        return [one for one in (error.data.get("finding"),) if isinstance(one, Finding)]


def compared(
    one: Mapping[str, Sequence[Finding]], other: Mapping[str, Sequence[Finding]], names: Sequence[str]
) -> Sequence[Finding]:
    """A finding for each file of each container that both of these runtimes show after the same request."""
    return [found for request in one for found in differences(request, one[request], other[request], names)]


def differences(
    request: str, one: Sequence[Finding], other: Sequence[Finding], names: Sequence[str]
) -> Iterator[Finding]:
    """A finding for each file that both runtimes show after a request of this name.

    It deviates if the files differ where the models agree, and if they agree where the models differ: then a trait is
    wrong. A cgroup that only one of them creates, such as crun's scope around a container, is left out.
    """
    sides = [_by_place(side) for side in (one, other)]
    both = {about for about, _, _ in sides[0]} & {about for about, _, _ in sides[1]}
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        mine, its = (side.get(key) for side in sides)
        if mine is not None and its is not None:
            yield _difference(request, mine, its, names)
        elif (alone := mine or its) is not None and alone.verdict is Verdict.DEVIATES and alone.subject in both:
            # A setting that no request names is a finding of its own only if it is not at its default.
            held = f"{alone.observed} with {names[mine is None]}, nothing unusual with {names[mine is not None]}"
            yield _found(request, alone, expected=_SAME, observed=held, right=False)


def _by_place(findings: Sequence[Finding]) -> Mapping[tuple[Subject, str, int], Finding]:
    """The observed findings by subject, file, and number among equals."""
    found: dict[tuple[Subject, str, int], Finding] = {}
    count = Counter[tuple[Subject, str]]()
    for finding in findings:
        if finding.verdict is not Verdict.NOT_OBSERVABLE and finding.observed:
            place = finding.subject, finding.knob
            found[*place, count[place]] = finding
            count[place] += 1
    return found


def _difference(request: str, mine: Finding, its: Finding, names: Sequence[str]) -> Finding:
    explained = _kind(mine.expected) != _kind(its.expected)
    differs = _kind(mine.observed) != _kind(its.observed)
    trait = f"{mine.expected} with {names[0]}, {its.expected} with {names[1]}"
    held = f"{mine.observed} with {names[0]}, {its.observed} with {names[1]}"
    return _found(
        request,
        mine,
        expected=trait if explained else _SAME,
        observed=held if differs else _SAME,
        right=differs is explained,
    )


def _found(request: str, about: Finding, *, expected: str, observed: str, right: bool) -> Finding:
    return Finding(
        verdict=Verdict.of(right),
        subject=about.subject.at(f"request {request}"),
        cgroup=about.cgroup,
        knob=about.knob,
        set_by=Setter.RUNTIME,
        expected=expected,
        observed=observed,
        reason=about.reason,
    )


def _kind(text: str) -> str:
    """The comparable part of a value: the wording of a refusal is each runtime's own."""
    return "refused" if text.startswith("refused: ") else text
