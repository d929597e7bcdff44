"""The verbs of `memqos report` that merge results folders, and that verify one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from memqos import frame
from memqos.bundles.files import compress_findings, write
from memqos.bundles.merging import merge
from memqos.bundles.reading import read_results
from memqos.bundles.verifying import SUMS, Verification, seal, sign, signature_of, verify
from memqos.cli.terminal import say
from memqos.errors import ExitCode, UsageError
from memqos.page.building import page_html
from memqos.report import junit, matrix, prow
from memqos.report.bundle import Results
from memqos.report.verdict import CONTRADICTS_ITSELF, verdict_line

__all__ = ["merge_runs", "verify_run", "written"]


@click.command(name="merge")
@click.argument("results", nargs=-1, required=True, metavar="RESULTS...", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, metavar="FOLDER", type=click.Path(path_type=Path), help="A new folder.")
def merge_runs(results: tuple[Path, ...], output: Path) -> None:
    """Merge shards, workers, hosts or kernels into one results folder, with its own bundle, JUnit and report.

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
    """Check by SHA256SUMS whether every file is unchanged since the run, and print who signed it.

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
    write(folder / "junit_01.xml", junit.junit_xml(made.bundle))
    for name, text in prow.files_of(made.bundle).items():
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
    """Remove a new folder if it does not get complete; a folder that existed before stays."""
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
    """Turn a write that the host refuses into an error of the tree."""
    try:
        yield
    except OSError as error:
        refused = frame.of_the_host(error, where=output, next_step="Name another place with --output.")
        raise refused or UsageError(f"'{output}' cannot be written: {error.strerror}.", where="--output") from error
