"""Several runs as one: shards, workers, hosts and kernels, in one results folder that says what came from where.

Machines, populations and cases keep their names behind that of their part. A case that two parts have for the same
system is a double; if they do not agree, it is a contradiction, both are kept, and it is named.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memqos.bundles.evidence import inside
from memqos.bundles.files import EVIDENCE, write
from memqos.bundles.fitting import misfit_shards
from memqos.bundles.reading import Results
from memqos.errors import ExitCode, UsageError
from memqos.report.bundle import Bundle, Merged, Part
from memqos.report.outcome import Outcome, TestResult, exit_code

__all__ = ["merge"]

_TROUBLES = (ExitCode.CLOSED_PIPE, ExitCode.USAGE, ExitCode.ENVIRONMENT, ExitCode.MACHINERY)


def merge(parts: Sequence[Results], folder: Path) -> Results:
    """The parts as one run in this folder, which is made: its bundle, findings and evidence.

    Raises UsageError if there is no part, if one is named twice, or if the folder holds something or is in a part.
    """
    _check(parts, folder)
    names = _names(parts)
    told: dict[tuple[str, ...], list[tuple[str, TestResult]]] = {}
    machines: list[Mapping[str, Any]] = []
    for name, part in zip(names, parts, strict=True):
        of_machine = {str(machine.get("id", "")): machine for machine in part.bundle.machines}
        for result in part.bundle.results:
            key = (
                result.id,
                result.profile,
                result.runtime,
                result.driver,
                *_kind(of_machine.get(result.machine, {})),
            )
            told.setdefault(key, []).append((name, _renamed(result, name)))
        machines += [{**machine, "id": _own(name, str(machine.get("id", "?")))} for machine in part.bundle.machines]
    bundle = _bundle(names, parts, told, tuple(machines))
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(names, parts, strict=True):
        _copy_evidence(part.folder, folder, name)
    lines = (json.dumps(result.to_json(), ensure_ascii=False) for result in bundle.results)
    write(folder / "findings.jsonl", "".join(f"{line}\n" for line in lines))
    missing = [f"{name}: {one}" for name, part in zip(names, parts, strict=True) for one in part.missing]
    return Results(folder=folder, bundle=bundle, missing=tuple(missing))


def _check(parts: Sequence[Results], folder: Path) -> None:
    places = [part.folder.resolve() for part in parts]
    if not parts:
        raise UsageError("there are no results to merge.", next_step="Name two folders or more.")
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise UsageError(f"'{twice}' is named twice.", next_step="Name each folder once.")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"'{folder}' is not empty.", next_step="Name a new folder with --output.")
    if around := next((place for place in places if folder.resolve().is_relative_to(place)), None):
        raise UsageError(
            f"'{folder}' is within '{around}', which would not be as its run left it.",
            next_step="Name a new folder beside it with --output.",
        )


def _names(parts: Sequence[Results]) -> list[str]:
    """A name for each part: its folder's, with those above it where that is not enough, else its number."""
    for depth in range(1, 4):
        names = ["-".join(part.folder.resolve().parts[-depth:]).strip("/") for part in parts]
        if len(set(names)) == len(names) and all(names):
            return names
    return [f"part-{number}" for number in range(1, len(parts) + 1)]


def _own(part: str, name: str) -> str:
    return f"{part}-{name}" if name else ""


def _renamed(result: TestResult, part: str) -> TestResult:
    kind, _, name = result.folder.partition("/")
    folder = f"{kind}/{_own(part, name)}" if kind in EVIDENCE and name else ""
    return dataclasses.replace(result, machine=_own(part, result.machine), folder=folder)


def _kind(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes the same case on another machine another case: topology, kernel and runtimes."""
    runtimes = machine.get("runtimes")
    told = (str(machine.get(name, "")) for name in ("topology", "kernel"))
    return *told, *(map(str, runtimes) if isinstance(runtimes, list | tuple) else ())


def _bundle(
    names: Sequence[str],
    parts: Sequence[Results],
    told: Mapping[tuple[str, ...], Sequence[tuple[str, TestResult]]],
    machines: tuple[Mapping[str, Any], ...],
) -> Bundle:
    results: list[TestResult] = []
    doubles: list[str] = []
    contradictions: list[str] = []
    for each in told.values():
        first = each[0][1]
        whose = ", ".join(f"{name}: {result.outcome.value}" for name, result in each)
        if len(each) == 1 or all(_agree(first, other) for _, other in each[1:]):
            results.append(first)
            doubles += [f"{first.id} ({whose})"] if len(each) > 1 else []
        else:
            results += [result for _, result in each]
            contradictions.append(f"{first.id} ({whose})")
    bundles = [part.bundle for part in parts]
    misfits = list(misfit_shards([(name, one.shard) for name, one in zip(names, bundles, strict=True)]))
    contradictions += misfits
    codes = {ExitCode(one.exit_code) for one in bundles}
    # Of shards that do not fit, cases are missing as of a run that was broken off.
    interrupted = bool(misfits) or any(one.interrupted for one in bundles)
    code = exit_code(results, interrupted=interrupted, troubles=[one for one in codes if one in _TROUBLES])
    if code is ExitCode.CONFORMS and ExitCode.DEVIATES in codes:
        code = ExitCode.DEVIATES  # for known deviations that are gone, where that was asked for
    return Bundle(
        started=min(one.started for one in bundles),
        ended=max(one.ended for one in bundles),
        exit_code=int(code),
        interrupted=interrupted,
        error="\n".join(
            f"{name}: {line}"
            for name, part in zip(names, parts, strict=True)
            for line in (*part.unended, *part.bundle.error.splitlines())
        ),
        versions=_common([one.versions for one in bundles]),
        host=_common([one.host for one in bundles]),
        settings=_common([one.settings for one in bundles]),
        machines=machines,
        results=tuple(results),
        not_run=sum(one.not_run for one in bundles),
        known_gone=tuple(dict.fromkeys(line for one in bundles for line in one.known_gone)),
        left_out=max((one.left_out for one in bundles), key=lambda left: left.cases),
        claims={name: claim for one in bundles for name, claim in one.claims.items()},
        merged=Merged(
            parts=tuple(part for name, one in zip(names, bundles, strict=True) for part in _parts(name, one)),
            doubles=tuple(doubles),
            contradictions=tuple(contradictions),
        ),
    )


def _agree(first: TestResult, other: TestResult) -> bool:
    """Whether two say the same of the system under test; what a place or a second has otherwise is no disagreement."""
    said = [[(one.verdict, one.subject, one.knob, one.expected) for one in each.findings] for each in (first, other)]
    return first.outcome is other.outcome and (said[0] == said[1] or first.outcome is Outcome.CONFORMS)


def _common(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all parts have alike; each part keeps its own."""
    return {name: value for name, value in each[0].items() if all(one.get(name) == value for one in each[1:])}


def _parts(name: str, bundle: Bundle) -> Iterator[Part]:
    """The run, or those that it was merged of before."""
    if bundle.merged is not None and bundle.merged.parts:
        yield from (dataclasses.replace(part, name=_own(name, part.name)) for part in bundle.merged.parts)
        return
    yield Part(
        name=name,
        started=bundle.started,
        ended=bundle.ended,
        exit_code=bundle.exit_code,
        cases=len(bundle.results),
        versions=bundle.versions,
        host=bundle.host,
        settings=bundle.settings,
    )


def _copy_evidence(source: Path, folder: Path, part: str) -> None:
    for kind in EVIDENCE:
        for own in _folders(source / kind):
            kept = inside(source, f"{kind}/{own.name}")
            if kept is not None:
                shutil.copytree(kept, folder / kind / _own(part, own.name), symlinks=True)


def _folders(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from sorted(one for one in place.iterdir() if one.is_dir())
