"""Make and verify a release: `tox -e release -- --help`. The whole procedure is in docs/how-to/release.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tools.release.artifacts import BASE_IMAGE, build_distributions, build_image, build_sbom, sha256
from tools.release.provenance import check as check_provenance
from tools.release.provenance import sign, statement
from tools.release.source import ReleaseError, Source, changelog_section, problems

TOP = Path(__file__).parents[2]
_DIST = click.option(
    "--dist", type=click.Path(path_type=Path, file_okay=False), default=TOP / "dist", help="Folder of the artifacts."
)
_REVISION = click.argument("revision", default="HEAD")


@click.group()
def release() -> None:
    """Make a release of memqos from a commit, and verify one."""


@release.command()
@_REVISION
def check(revision: str) -> None:
    """Check version, changelog, notes and tag of a commit; exit 1 and list what to mend."""
    source = Source.of(TOP, revision)
    found = list(problems(source))
    for problem in found:
        click.echo(problem, err=True)
    if found:
        sys.exit(1)
    date, _ = changelog_section(source.text("CHANGELOG.md"), source.version)
    click.echo(f"{source.version} of {date} can be released: commit {source.commit}, tag {source.tag or 'not set'}")


@release.command()
@_REVISION
@_DIST
@click.option("--image", is_flag=True, help="Build the container image, too (needs buildah and root).")
@click.option(
    "--base",
    default=BASE_IMAGE,
    show_default=True,
    help="Base image, or 'bootstrap' to make one with mmdebstrap where no registry can be reached.",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Private key in PEM that signs the provenance; without it the provenance is unsigned.",
)
@click.option("--builder", default="urn:memqos:builder:local", show_default=True, help="URI of this builder.")
def build(*, revision: str, dist: Path, image: bool, base: str, key: Path | None, builder: str) -> None:
    """Build sdist, wheel, SBOM, provenance and checksums of a commit."""
    source = Source.of(TOP, revision)
    if dist.is_dir() and any(dist.iterdir()):
        raise ReleaseError(f"{dist} is not empty: a release is built in an empty folder")
    wheel, sdist = sorted(build_distributions(source, dist), key=lambda one: one.suffix != ".whl")
    click.echo(f"{wheel.name} and {sdist.name}: two builds are equal")
    constraints, sbom = build_sbom(source, wheel, dist)
    artifacts = [wheel, sdist, constraints, sbom]
    if image:
        artifacts.append(build_image(source, wheel, constraints, dist, base=base))
    made = statement(source, artifacts, image_base=base if image else "", builder=builder)
    provenance = dist / f"memqos-{source.version}.intoto.jsonl"
    provenance.write_text(json.dumps(sign(made, key) if key else made, sort_keys=True) + "\n")
    sums = "".join(f"{sha256(one)}  {one.name}\n" for one in sorted([*artifacts, provenance]))
    (dist / "SHA256SUMS").write_text(sums)
    click.echo(sums, nl=False)


@release.command()
@_DIST
@click.option(
    "--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Public key in PEM of the signer."
)
def verify(dist: Path, key: Path | None) -> None:
    """Verify the artifacts in a folder against their provenance."""
    files = list(dist.glob("memqos-*.intoto.jsonl"))
    if len(files) != 1:
        raise ReleaseError(f"{dist} has {len(files)} files memqos-*.intoto.jsonl: expected one")
    for name in check_provenance(dist, json.loads(files[0].read_text()), key):
        click.echo(f"{name}: OK")


@release.command()
@_REVISION
def notes(revision: str) -> None:
    """Print the changelog section of a commit's version: the text of an annotated tag."""
    source = Source.of(TOP, revision)
    click.echo(f"memqos {source.version}\n\n{changelog_section(source.text('CHANGELOG.md'), source.version)[1]}")


@release.command()
@_REVISION
def previous(revision: str) -> None:
    """Print commit and version of the release before a commit's version."""
    found = Source.of(TOP, revision).previous()
    click.echo(f"{found.commit} {found.version} {found.tag or 'no tag'}" if found else "no earlier version")


if __name__ == "__main__":
    try:
        release(prog_name="python -m tools.release")
    except ReleaseError as error:
        sys.exit(f"release: {error}")
