"""Build what a release consists of, all of it from a commit: sdist, wheel, SBOM with the versions, container image."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from memqos.vm.image.making import find_mirror
from tools.release.source import ReleaseError, Source

__all__ = ["build_backend", "build_distributions", "build_image", "build_sbom", "sha256"]

_UPLOT = "harness/memqos/page/vendored/uPlot.iife.min.js"
BASE_IMAGE = "docker.io/library/debian:trixie-slim"
IMAGE_PYTHON = "3.13"
"""The minor version of Python in Debian trixie."""
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
"""Tags of wheels that trixie's glibc 2.41 runs."""


def sha256(file: Path) -> str:
    """The SHA-256 of a file in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def run(argv: Sequence[str], cwd: Path, *, umask: int = -1, **environment: str) -> str:
    """Run a program to its end; ReleaseError with what it printed if it fails. umask: -1 keeps this process's own."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | environment
    done = subprocess.run(argv, cwd=cwd, env=settings, umask=umask, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What must make no difference to a build: the folder's depth, the umask, and settings of the environment."""

    folder: str
    umask: int
    environment: Mapping[str, str]


_TWO = (
    _Surroundings("one", 0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
    _Surroundings("two/further/down", 0o077, {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"}),
)


def build_distributions(source: Source, dist: Path) -> list[Path]:
    """The sdist and the wheel of a commit, in `dist`: built twice, and ReleaseError if a byte differs.

    The wheel is built from the sdist, so the sdist is complete.
    """
    with tempfile.TemporaryDirectory(prefix="memqos-release-") as name:
        builds = [_build_once(source, Path(name) / one.folder, one) for one in _TWO]
        for first, second in zip(*builds, strict=True):
            if first.name != second.name or sha256(first) != sha256(second):
                raise ReleaseError(f"not reproducible: two builds of {source.commit[:12]} differ in {first.name}")
        dist.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copyfile(one, dist / one.name)) for one in builds[0]]


def _build_once(source: Source, folder: Path, surroundings: _Surroundings) -> list[Path]:
    """Sdist and wheel, sorted by name."""
    tree, out = folder / "tree", folder / "out"
    tree.mkdir(parents=True)
    before = os.umask(surroundings.umask)
    try:
        source.export(tree)
    finally:
        os.umask(before)
    run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(tree)], folder,
        umask=surroundings.umask, SOURCE_DATE_EPOCH=str(source.epoch), MEMQOS_PROGRAMS="all",
        **surroundings.environment,
    )  # fmt: skip
    built = sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")])
    if [one.suffix for one in built] != [".whl", ".gz"]:
        raise ReleaseError(f"expected one sdist and one wheel, got {[one.name for one in built]}")
    return built


def build_backend(wheel: Path) -> tuple[str, str]:
    """Name and version of the build backend that a wheel names as its generator."""
    with zipfile.ZipFile(wheel) as opened:
        [named] = [name for name in opened.namelist() if name.endswith(".dist-info/WHEEL")]
        match = re.search(r"^Generator: (\S+) (\S+)$", opened.read(named).decode(), re.MULTILINE)
    if not match:
        raise ReleaseError(f"{wheel.name} names no build backend")
    return match[1], match[2]


def build_sbom(source: Source, wheel: Path, dist: Path) -> list[Path]:
    """A CycloneDX SBOM of the environment that the wheel makes, and its versions as a constraints file for pip."""
    version = source.version
    with tempfile.TemporaryDirectory(prefix="memqos-release-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        python = str(folder / "venv" / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python]
        run([*pip, "install", "--quiet", str(wheel)], folder)
        frozen = run([*pip, "freeze", "--exclude", "memqos"], folder)
        (folder / "pyproject.toml").write_text(source.text("pyproject.toml"))
        said = run(
            [
                str(Path(sys.executable).with_name("cyclonedx-py")), "environment", "--output-reproducible",
                "--pyproject", str(folder / "pyproject.toml"), "--mc-type", "application", python,
            ],
            folder, SOURCE_DATE_EPOCH=str(source.epoch),
        )  # fmt: skip
    bom = Bom.from_json(json.loads(said))  # type: ignore[attr-defined]
    _name_release(bom, version, wheel)
    uplot = _uplot(source)
    bom.components.add(uplot)
    bom.register_dependency(bom.metadata.component, [uplot])
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ReleaseError(f"the SBOM is not valid CycloneDX 1.6: {wrong}")
    sbom, constraints = dist / f"memqos-{version}.cdx.json", dist / f"memqos-{version}-constraints.txt"
    sbom.write_text(text)
    constraints.write_text(frozen)
    return [constraints, sbom]


def _name_release(bom: Bom, version: str, wheel: Path) -> None:
    """The main component is the released wheel: cyclonedx-py does not know a dynamic version."""
    main = bom.metadata.component
    if main is None:
        raise ReleaseError("cyclonedx-py named no main component")
    main.version = version
    main.purl = PackageURL(type="pypi", name="memqos", version=version)
    main.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256(wheel)))


def _uplot(source: Source) -> Component:
    """The JavaScript library that the report carries: no environment of Python lists it."""
    text = source.text(_UPLOT)
    match = re.search(r"uPlot \(v([\d.]+)\)", text[:200])
    if not match:
        raise ReleaseError(f"{_UPLOT} does not name its version in its first line")
    return Component(
        name="uplot",
        version=match[1],
        type=ComponentType.LIBRARY,
        bom_ref=f"uplot=={match[1]}",
        licenses=[DisjunctiveLicense(id="MIT")],
        purl=PackageURL(type="npm", name="uplot", version=match[1]),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(text.encode()).hexdigest())],
    )


def build_image(source: Source, wheel: Path, constraints: Path, dist: Path, *, base: str) -> Path:
    """An OCI archive of the image that Containerfile makes of the wheel, by buildah: no daemon and no registry.

    base: the image to build on, such as BASE_IMAGE. "bootstrap" makes one of Debian trixie with mmdebstrap, from the
    mirror in MEMQOS_DEBIAN_MIRROR or of the host's apt, for hosts that reach no registry. buildah needs root.
    The requirements are downloaded on this host, in the release's versions.
    """
    for program in ("buildah", *(["mmdebstrap"] if base == "bootstrap" else [])):
        if not shutil.which(program):
            raise ReleaseError(f"the image needs {program}: apt install {program}, or leave out --image")
    name, epoch = f"memqos:{source.version}", str(source.epoch)
    archive = dist / f"memqos-{source.version}.oci.tar"
    with tempfile.TemporaryDirectory(prefix="memqos-release-") as made:
        folder = Path(made)
        if base == "bootstrap":
            base = _bootstrapped(folder, epoch)
        context = folder / "context"
        (context / "dist").mkdir(parents=True)
        (context / "Containerfile").write_text(source.text("Containerfile"))
        shutil.copy(wheel, context / "dist")
        shutil.copyfile(constraints, context / "dist" / "constraints.txt")
        run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                "--python-version", IMAGE_PYTHON, *(word for tag in _PLATFORMS for word in ("--platform", tag)),
                "--dest", str(context / "dist"), "--requirement", str(constraints),
            ],
            folder,
        )  # fmt: skip
        run(
            [
                "buildah", "build", "--isolation", "chroot", "--timestamp", epoch, "--layers=false",
                "--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1", "--tag", name,
                "--file", "Containerfile", ".",
            ],
            context,
        )  # fmt: skip
        archive.unlink(missing_ok=True)
        run(["buildah", "push", name, f"oci-archive:{archive}:{name}"], folder)
    return archive


def _bootstrapped(folder: Path, epoch: str) -> str:
    """The name of a base image that holds Debian trixie."""
    tree, name = folder / "debian.tar", "localhost/memqos-debian:trixie"
    mirror = find_mirror(os.environ).uri
    run(
        ["mmdebstrap", "--variant=minbase", "trixie", str(tree), *([mirror] if mirror else [])],
        folder, SOURCE_DATE_EPOCH=epoch,
    )  # fmt: skip
    container = run(["buildah", "from", "scratch"], folder).strip()
    try:
        run(["buildah", "add", "--quiet", container, str(tree), "/"], folder)
        run(["buildah", "commit", "--quiet", "--timestamp", epoch, container, name], folder)
    finally:
        run(["buildah", "rm", container], folder)
    return name
