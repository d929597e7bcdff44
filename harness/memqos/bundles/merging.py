"""Merges several runs (shards, workers, hosts, kernels) into one results folder that names the origin of each part.

The names of machines, populations and cases begin with the name of their part. A case that two parts have for the same
system is a double. If they do not agree, it is a contradiction: both are kept, and it is reported.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memqos.bundles.consistency import TROUBLES
from memqos.bundles.evidence import inside
from memqos.bundles.files import EVIDENCE, FAILED, NOT_VERIFIED, VERIFIED, verify, write
from memqos.bundles.reading import verification_notes
from memqos.errors import ExitCode, UsageError
from memqos.report.bundle import Bundle, Merged, Part, Results
from memqos.report.outcome import Outcome, TestResult, exit_code

__all__ = ["merge", "misfit_shards", "parts_of"]


def refuse_special_files(folder: Path) -> None:
    """Raise UsageError for a pipe, socket or device below a folder: no run writes one, and reading it may never end."""
    if not folder.is_dir():
        return
    for place, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            file = Path(place, name)
            if not file.is_symlink() and not file.is_file():
                raise UsageError(
                    f"'{file}' is a pipe, a socket or a device, which no run writes.",
                    next_step="Remove it, and call again.",
                )


def _raise(error: OSError) -> None:
    raise error


def copy_folder(source: Path, target: Path) -> Iterator[Path]:
    """Copy a folder into a new one; yields the links that are left out, because they point outside of it or nowhere.

    Links within the folder stay links. Raises OSError for failed reads and writes.
    """
    whole = source.resolve()
    for place, folders, names in os.walk(source, onerror=_raise):
        here = target / Path(place).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in sorted([*names, *(one for one in folders if Path(place, one).is_symlink())]):
            file = Path(place, name)
            if not file.is_symlink():
                shutil.copy2(file, here / name, follow_symlinks=False)
            elif _stays_within(file, whole):
                (here / name).symlink_to(file.readlink())
            else:
                yield file


def _stays_within(link: Path, folder: Path) -> bool:
    """Whether a link points into the folder, by a path that is also valid in a copy of it."""
    try:
        found = link.resolve(strict=True)
    except (OSError, RuntimeError):  # a dangling link, or a loop
        return False
    return found.is_relative_to(folder) and not link.readlink().is_absolute()


def misfit_shards(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The faults, a sentence each; none if no part is a shard, or if each division has all its shards.

    parts: each name with the shard of its bundle, empty for a whole run.
    """
    shards = [(name, shard) for name, shard in parts if shard]
    wholes: dict[tuple[str, ...], list[str]] = {}
    for name, shard in shards:
        whole = _whole_of(shard, [other for _, other in shards])
        wholes.setdefault(whole, []).append(name)
    lacking = {whole: missing for whole, names in wholes.items() if (missing := _missing(whole[0], names, parts))}
    if len(lacking) > 1:
        told = "; ".join(
            f"{', '.join(wholes[of, cases, division])}: {of} parts of {cases} cases, division {division}"
            for of, cases, division in lacking
        )
        yield f"the shards belong to different divisions, so cases may be missing or duplicated ({told})"
        return
    for (of, _, _), missing in lacking.items():
        yield f"of {of} shards {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"


def _whole_of(shard: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """A shard's division; for a shard that was killed before it divided its cases, the only possible one."""
    known = {_told(one) for one in shards if one.get("division") and one.get("of") == shard.get("of")}
    return known.pop() if not shard.get("division") and len(known) == 1 else _told(shard)


def _told(shard: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(shard.get(key, "?")) for key in ("of", "cases", "division"))


def _missing(of: str, names: Sequence[str], parts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The missing numbers of a division."""
    numbers = {str(shard.get("number", "?")) for name, shard in parts if name in names}
    return [number for number in map(str, range(1, int(of) + 1)) if number not in numbers] if of.isdigit() else []


_MOST_FAULTS = 20


def merge(parts: Sequence[Results], folder: Path) -> Results:
    """The parts as one run in this new folder: its bundle, findings and evidence.

    Raises UsageError without parts, if one is named twice, or if the folder is not empty or is within a part.
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
    for part in parts:
        for kept in (part.folder / kind for kind in EVIDENCE):
            refuse_special_files(kept)
    folder.mkdir(parents=True, exist_ok=True)
    left_out = [line for name, part in zip(names, parts, strict=True) for line in _copy_evidence(part, folder, name)]
    lines = (json.dumps(result.to_json(), ensure_ascii=False) for result in bundle.results)
    write(folder / "findings.jsonl", "".join(f"{line}\n" for line in lines))
    missing = [f"{name}: {one}" for name, part in zip(names, parts, strict=True) for one in part.missing]
    missing += [*verification_notes(bundle), *left_out]
    return Results(folder=folder, bundle=bundle, missing=tuple(dict.fromkeys(missing)))


def _check(parts: Sequence[Results], folder: Path) -> None:
    places = [part.folder.resolve() for part in parts]
    if not parts:
        raise UsageError("no results to merge.", next_step="Name two folders or more.")
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise UsageError(f"'{twice}' is named twice.", next_step="Name each folder once.")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"'{folder}' is not empty.", next_step="Name a new folder with --output.")
    if around := next((place for place in places if folder.resolve().is_relative_to(place)), None):
        raise UsageError(
            f"'{folder}' is within '{around}', and would change it.",
            next_step="Name another folder with --output.",
        )


def _names(parts: Sequence[Results]) -> list[str]:
    """A name for each part: its folder's, with the folders above it if needed, else its number."""
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
    attempts = (dataclasses.replace(one, machine=_own(part, one.machine)) for one in result.earlier_attempts)
    return dataclasses.replace(
        result, machine=_own(part, result.machine), folder=folder, earlier_attempts=tuple(attempts)
    )


def _kind(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """What distinguishes the same case on another machine: topology, kernel and runtimes."""
    runtimes = machine.get("runtimes")
    told = (str(machine.get(name, "")) for name in ("topology", "kernel"))
    return *told, *(map(str, runtimes) if isinstance(runtimes, list | tuple) else ())


def _bundle(
    names: Sequence[str],
    parts: Sequence[Results],
    told: Mapping[tuple[str, ...], Sequence[tuple[str, TestResult]]],
    machines: tuple[Mapping[str, Any], ...],
) -> Bundle:
    results, doubles, contradictions = _united(told.values())
    bundles = [part.bundle for part in parts]
    misfits = list(misfit_shards([(name, one.shard) for name, one in zip(names, bundles, strict=True)]))
    contradictions += misfits
    codes = {ExitCode(one.exit_code) for one in bundles}
    # If shards do not fit, cases are missing as in an interrupted run.
    interrupted = bool(misfits) or any(one.interrupted for one in bundles)
    code = exit_code(results, interrupted=interrupted, troubles=[one for one in codes if one in TROUBLES])
    if code is ExitCode.CONFORMS and ExitCode.DEVIATES in codes:
        code = ExitCode.DEVIATES  # for known deviations that were not observed, with --strict-known
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
        inconsistencies=tuple(
            f"{name}: {line}" for name, one in zip(names, bundles, strict=True) for line in one.inconsistencies
        ),
        claims={name: claim for one in bundles for name, claim in one.claims.items()},
        merged=Merged(
            parts=tuple(one for name, part in zip(names, parts, strict=True) for one in parts_of(name, part)),
            doubles=tuple(doubles),
            contradictions=tuple(contradictions),
        ),
    )


def _united(
    told: Iterable[Sequence[tuple[str, TestResult]]],
) -> tuple[list[TestResult], list[str], list[str]]:
    """The results, one of each case whose parts agree; the cases of several parts that do, and those that do not."""
    results: list[TestResult] = []
    doubles: list[str] = []
    contradictions: list[str] = []
    for each in told:
        first = each[0][1]
        whose = ", ".join(f"{name}: {result.outcome.value}" for name, result in each)
        if len(each) == 1 or all(_agree(first, other) for _, other in each[1:]):
            results.append(first)
            doubles += [f"{first.id} ({whose})"] if len(each) > 1 else []
        else:
            results += [result for _, result in each]
            contradictions.append(f"{first.id} ({whose})")
    return results, doubles, contradictions


def _agree(first: TestResult, other: TestResult) -> bool:
    """Whether two results agree about the system under test; places and times may differ."""
    said = [[(one.verdict, one.subject, one.knob, one.expected) for one in each.findings] for each in (first, other)]
    return first.outcome is other.outcome and (said[0] == said[1] or first.outcome is Outcome.CONFORMS)


def _common(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings that are equal in all parts; each part keeps its own."""
    return {name: value for name, value in each[0].items() if all(one.get(name) == value for one in each[1:])}


def parts_of(name: str, results: Results) -> Iterator[Part]:
    """The run, or the parts of an already merged one, with the verification of its folder."""
    bundle, found = results.bundle, verify(results.folder)
    faults = tuple(found.faults())
    shown = (
        *faults[:_MOST_FAULTS],
        *([f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else ()),
    )
    if bundle.merged is not None and bundle.merged.parts:
        for part in bundle.merged.parts:
            # A part's verification is only as good as that of the folder that contains it.
            said = {part.verified or NOT_VERIFIED, found.state}
            state = next(state for state in (FAILED, NOT_VERIFIED, VERIFIED) if state in said)
            yield dataclasses.replace(
                part, name=_own(name, part.name), verified=state, faults=tuple(dict.fromkeys((*part.faults, *shown)))
            )
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
        verified=found.state,
        faults=shown,
    )


def _copy_evidence(part: Results, folder: Path, name: str) -> Iterator[str]:
    """Copy a part's evidence; yields a sentence for each entry that is left out."""
    for kind in EVIDENCE:
        for own in _folders(part.folder / kind):
            kept = inside(part.folder, f"{kind}/{own.name}")
            if kept is None:
                yield f"{name}: {kind}/{own.name} points outside of the results and is left out."
                continue
            for link in copy_folder(kept, folder / kind / _own(name, own.name)):
                place = f"{kind}/{own.name}/{link.relative_to(kept)}"
                yield f"{name}: {place} is a link to outside of its folder and is left out."


def _folders(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from sorted(one for one in place.iterdir() if one.is_dir())
