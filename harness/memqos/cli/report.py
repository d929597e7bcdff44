"""`memqos report`: everything that needs only results folders.

Also the verbs that merge results folders, and that verify one.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from memqos import frame
from memqos.bundles.comparing import compare, comparison_lines
from memqos.bundles.files import (
    BUNDLE,
    COMPRESSED,
    FINDINGS,
    RUN,
    SIGNATURE,
    SUMS,
    Verification,
    compress_findings,
    seal,
    sign,
    signature_of,
    verify,
    write,
)
from memqos.bundles.merging import merge
from memqos.bundles.reading import first_few, read_results, suites_score
from memqos.cli.terminal import KnownVerbs, say, say_document
from memqos.errors import ExitCode, UsageError
from memqos.page.building import page_html
from memqos.report import ci_results, markdown, matrix, summary
from memqos.report.bundle import Results
from memqos.report.markdown import (
    compatibility_markdown,
    compatibility_of,
    support_badges,
    support_markdown,
    support_of,
)
from memqos.report.outcome import observed_something
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["command"]


@click.command(name="merge")
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="FOLDER", type=click.Path(path_type=Path), help="A new folder.")
def merge_runs(results: tuple[Path, ...], output: Path) -> None:
    """Merge several runs into one results folder.

    They may be shards, workers, hosts or kernels. The folder has its own bundle, JUnit and report.

    If several folders have a case for the same system, the merged folder has it once if they agree. If they do not, it
    has all of them, and the command reports a contradiction.

    \b
    Examples:
      memqos report merge shard-1 shard-2 -o results/all
    """
    read = [read_results(place) for place in results]
    with written(str(output)), _whole_or_nothing(output):
        merged = merge(read, output)
        _finish(merged, output)
    for one in (*merged.missing, *_inconsistencies(merged)):
        say(f"memqos: note: {one}", err=True)
    told = merged.bundle.merged
    if told is not None:
        for part in told.parts:
            say(f"part: {part.name}: {part.verified}")
        for line in told.doubles:
            say(f"double: {line}")
        for line in told.contradictions:
            say(f"contradiction: {line}")
    say(f"results: {output}")
    say(verdict_line(merged.bundle))


@click.command(name="verify")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--sign-with",
    metavar="KEY",
    type=click.Path(path_type=Path),
    help="Sign with this ssh key, if every file is unchanged.",
)
@click.option(
    "--allowed-signers", metavar="FILE", type=click.Path(path_type=Path), help="The accepted signers (ssh-keygen(1))."
)
@click.option("--signer", default="", metavar="NAME", help="The name in that file that the signature must have.")
def verify_run(results: Path, *, sign_with: Path | None, allowed_signers: Path | None, signer: str) -> int:
    """Check whether every file is unchanged since the run.

    Compares the files with SHA256SUMS, and prints the signer.

    Exits with 0 if so, and with 1 if a file was changed, removed or added, or if a signature is not valid.

    \b
    Examples:
      memqos report verify results/TIME --sign-with ~/.ssh/id_ed25519
      memqos report verify results/TIME --allowed-signers signers --signer release@example.org
    """
    if (allowed_signers is None) != (not signer):
        raise UsageError(
            "one lists the accepted signers, the other selects one of them; both are needed.",
            where="--allowed-signers, --signer",
            next_step="Give both.",
        )
    # With hashes, verification reports what is missing, even if that is every result.
    folder = results if (results / SUMS).is_file() else read_results(results).folder
    found = verify(folder)
    for line in _verification_lines(found):
        say(line)
    if not found.sealed:
        return ExitCode.DEVIATES
    if sign_with is not None and found.is_whole:
        try:
            sign(folder, sign_with)
        except OSError as error:
            raise frame.of_the_host(error, where=str(folder)) or UsageError(
                f"the signature cannot be written: {error.strerror}.", where=str(folder)
            ) from error
    signature = signature_of(folder, allowed=allowed_signers, identity=signer)
    say(f"signed: {signature.by or 'no'}")
    if signature.fault:
        say(f"signature: {signature.fault}")
    return ExitCode.CONFORMS if found.is_whole and not signature.fault else ExitCode.DEVIATES


def _verification_lines(found: Verification) -> Iterator[str]:
    if not found.sealed:
        yield "not sealed: the run wrote no SHA256SUMS; a killed run does not"
        return
    yield from found.faults()
    yield f"{found.checked} files are unchanged since the run"


def _finish(made: Results, folder: Path) -> None:
    """Write the files that a run writes at its end, for merged results."""
    write(folder / "junit_01.xml", ci_results.junit_xml(made.bundle))
    for name, text in ci_results.files_of(made.bundle).items():
        write(folder / name, text)
    if lines := list(matrix.matrix_lines(matrix.matrix_of(made.bundle.results))):
        write(folder / "matrix.txt", "\n".join(lines) + "\n")
    write(folder / "report.html", page_html(made))
    write(folder / "bundle.json", made.bundle.to_text())
    compress_findings(folder)
    seal(folder)


def _inconsistencies(read: Results) -> Iterator[str]:
    return (f"{CONTRADICTS_ITSELF}: {one}" for one in read.bundle.inconsistencies)


@contextlib.contextmanager
def _whole_or_nothing(folder: Path) -> Iterator[None]:
    """Remove a new folder if it is not completed; a folder that existed before stays."""
    was_there = folder.exists()
    is_ours = not was_there or (folder.is_dir() and not any(folder.iterdir()))
    try:
        yield
    except BaseException:
        if is_ours:
            made = folder.iterdir() if was_there else [folder]
            for one in made:
                if one.is_dir():
                    shutil.rmtree(one, ignore_errors=True)
                else:
                    one.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def written(output: str) -> Iterator[None]:
    """Turn a write error of the host into an error of the tree."""
    try:
        yield
    except OSError as error:
        refused = frame.of_the_host(error, where=output, next_step="Name another place with --output.")
        raise refused or UsageError(f"'{output}' cannot be written: {error.strerror}.", where="--output") from error


HELP = """Report on results folders, also on that of a killed run. Several folders are read as one.

\b
Examples:
  memqos report html results/TIME -o report.html     write one HTML file that needs nothing else
  memqos report show results/TIME                    print the summary of the run again
  memqos report compare results/OLD results/NEW      print what improved and what got worse
  memqos report support results/*                    write a table of claims by runtime and version
  memqos report merge shard-1 shard-2 -o results     merge several folders into one
  memqos report verify results/TIME                  check that the folder is unchanged since its run
"""

_NO_REPORTS = frozenset({BUNDLE, FINDINGS, f"{FINDINGS}{COMPRESSED}", RUN, SUMS, SIGNATURE})

_Command = TypeVar("_Command", bound=Callable[..., Any])

_results = click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=click.Path(path_type=Path))


def _output(default: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-o",
        "--output",
        default=default,
        show_default=True,
        metavar="FILE",
        help="The file to write; - is standard output.",
    )


_mutants = click.option(
    "--mutants",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also show the score of the suites from this file of `memqos mutants --json`.",
)


@click.group(name="report", cls=KnownVerbs, help=HELP)
def command() -> None:
    """The page of `memqos report`."""


@command.command(name="html")
@_results
@_output("report.html")
@_mutants
def html(results: tuple[Path, ...], output: str, *, mutants: Path | None) -> None:
    """Write one HTML file that needs nothing else.

    It has an overview, a matrix, and every case with its reasons and charts. It opens without a network.

    \b
    Examples:
      memqos report html results/TIME -o report.html
    """
    with _read(results) as read:
        _put(page_html(read, suite=suites_score(mutants)), output)


@command.command(name="show")
@_results
@_mutants
def show(results: tuple[Path, ...], *, mutants: Path | None) -> None:
    """Print the summary of a run again.

    It has the table, what went wrong and why, and the verdict.

    \b
    Examples:
      memqos report show results/TIME
    """
    with _read(results) as read:
        for one in read.missing:
            say(f"memqos: note: {one}", err=True)
        place = str(results[0]) if len(results) == 1 else ", ".join(map(str, results))
        for line in summary.summary_lines(read.bundle, results_folder=place):
            say(line)
        if suite := suites_score(mutants):
            say(f"mutants: {suite}")


@command.command(name="junit")
@_results
@_output("-")
def as_junit(results: tuple[Path, ...], output: str) -> None:
    """Write JUnit XML for a CI system.

    \b
    Examples:
      memqos report junit shard-1 shard-2 -o junit_01.xml
    """
    with _read(results) as read:
        _note([read])
        _put(ci_results.junit_xml(read.bundle), output)


@command.command(name="tap")
@_results
@_output("-")
@click.option(
    "--tap-version",
    type=click.Choice([str(one) for one in ci_results.VERSIONS]),
    default=str(ci_results.VERSIONS[0]),
    show_default=True,
    help="Write this version of the protocol; some consumers, such as Perl's prove 3.44, read only 13.",
)
def as_tap(results: tuple[Path, ...], output: str, *, tap_version: str) -> None:
    """Write TAP (Test Anything Protocol).

    Each case is a test point. Not observable is ok with SKIP, a known deviation not ok with TODO.

    \b
    Examples:
      memqos report tap results/TIME -o memqos.tap
      memqos report tap results/TIME --tap-version 13 | prove --exec cat /dev/stdin
    """
    with _read(results) as read:
        _note([read])
        _put(ci_results.tap_text(read.bundle, version=int(tap_version)), output)


@command.command(name="markdown")
@_results
@_output("-")
def as_markdown(results: tuple[Path, ...], output: str) -> None:
    """Write Markdown for a CI job's summary or a pull request.

    \b
    Examples:
      memqos report markdown results/TIME >> "$GITHUB_STEP_SUMMARY"
    """
    with _read(results) as read:
        _put(markdown.markdown(read.bundle, name=read.name, missing=read.missing), output)


@command.command(name="badge")
@_results
@_output("-")
@click.option("--label", default="memory QoS", show_default=True, metavar="TEXT", help="The badge's label.")
def badge(results: tuple[Path, ...], output: str, label: str) -> None:
    """Write JSON for a badge of shields.io.

    \b
    Examples:
      memqos report badge results/TIME --label "runc 1.3" -o badge.json
    """
    with _read(results) as read:
        _note([read])
        _put(markdown.badge_json(read.bundle, label=label), output)


@command.command(name="support")
@_results
@_output("-")
@click.option("--badges", metavar="FOLDER", type=click.Path(path_type=Path), help="Also write a badge for each column.")
@click.option(
    "--compatibility",
    is_flag=True,
    help="Write a matrix instead: runtimes and Kubernetes releases by counter units, values, throttling, protection, "
    "resize and swap.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the table as JSON.")
def support(results: tuple[Path, ...], output: str, *, badges: Path | None, compatibility: bool, as_json: bool) -> None:
    """Write what each runtime supports, by version.

    The output is a Markdown table of claims by runtimes.

    RESULTS may have different runtimes and versions; cases of the same runtime and version count together.

    \b
    Examples:
      memqos report support results/runc-* results/crun-* -o SUPPORT.md --badges badges
      memqos report support results/* --compatibility
    """
    read = [read_results(place) for place in results]
    _note(read)
    if compatibility:
        matrix = compatibility_of([one.bundle for one in read])
        _put(json.dumps(matrix.to_json(), indent=1) + "\n" if as_json else compatibility_markdown(matrix), output)
        return
    found = support_of([one.bundle for one in read])
    _put(json.dumps(found.to_json(), indent=1) + "\n" if as_json else support_markdown(found), output)
    if badges is not None:
        with written(str(badges)):
            badges.mkdir(parents=True, exist_ok=True)
            for name, text in support_badges(found).items():
                write(badges / name, text)


@command.command(name="compare")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--fail-on",
    type=click.Choice(["new-deviations"]),
    help="Exit with 1 if something deviates in NEW that did not in OLD, 3 if OLD or NEW contradicts itself, and 5 if "
    "nothing was observed in NEW. Without this option, differences exit with 0.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all differences as JSON.")
def compare_runs(old: Path, new: Path, *, fail_on: str | None, as_json: bool) -> int:
    """Print the differences between two runs.

    It compares findings by claim and system, settings, versions, hashes and timing.

    \b
    Examples:
      memqos report compare results/main results/pull-request --fail-on new-deviations
    """
    read = [read_results(place) for place in (old, new)]
    _note(read)
    states = dict(_verified(read))
    comparison = compare(read[0].bundle, read[1].bundle)
    if as_json:
        told = {name: list(one.bundle.inconsistencies) for name, one in zip(("old", "new"), read, strict=True)}
        say_document({**comparison.to_json(), "verified": states, "inconsistencies": told})
    else:
        for line in comparison_lines(comparison):
            say(line)
    if not fail_on:
        return ExitCode.CONFORMS
    if comparison.new_deviations:
        return ExitCode.DEVIATES
    if any(one.bundle.inconsistencies for one in read):
        return ExitCode.MACHINERY
    return ExitCode.CONFORMS if observed_something(read[1].bundle.results) else ExitCode.NOTHING_OBSERVED


def _note(read: Iterable[Results]) -> None:
    """Print what is missing in the runs, and where their results contradict themselves."""
    for results in read:
        for one in results.missing:
            say(f"memqos: note: {results.name}: {one}", err=True)
        for one in results.bundle.inconsistencies:
            say(f"memqos: note: {results.name}: {CONTRADICTS_ITSELF}: {one}", err=True)


def _verified(read: Iterable[Results]) -> Iterator[tuple[str, str]]:
    """The state of OLD and NEW by their hashes; prints a note for each that was changed."""
    for name, results in zip(("old", "new"), read, strict=True):
        found = verify(results.folder)
        faults = tuple(found.faults())
        if faults:
            what = f"{results.name}: changed since its run (memqos report verify): {first_few(faults)}."
            say(f"memqos: note: {what}", err=True)
        yield name, found.state


@contextlib.contextmanager
def _read(places: tuple[Path, ...]) -> Iterator[Results]:
    """The results of one folder, or of several merged."""
    read = [read_results(place) for place in places]
    if len(read) == 1:
        yield read[0]
        return
    with tempfile.TemporaryDirectory(prefix="memqos-") as folder:
        yield merge(read, Path(folder) / "merged")


def _put(text: str, output: str) -> None:
    """Write a report, and print its path."""
    if output == "-":
        sys.stdout.write(text)
        return
    place = Path(output)
    if place.name in _NO_REPORTS and any((place.parent / name).is_file() for name in (BUNDLE, RUN, FINDINGS)):
        raise UsageError(
            f"a run wrote '{output}', and a report must not replace it.",
            where="--output",
            next_step="Name another file.",
        )
    with written(output):
        if place.exists() and not place.is_file():
            # Write into a device or a pipe; replacing it would leave a file in its place.
            place.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            write(place.resolve(), text)
    say(f"report: {place.resolve()}")


for _verb in (merge_runs, verify_run):
    command.add_command(_verb)
