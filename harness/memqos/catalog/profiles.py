"""Loads vm/profiles/NAME.toml on top of vm/recipe.toml, with all of memqos's files for the image.

The recipe has the common part of every profile; a profile's lists are added to the recipe's. A package NAME/SUITE is
taken from another suite, and replaces NAME.

    purpose = "its purpose"
    suite = "trixie"                        # Debian's code name
    architecture = "arm64"                  # as container images spell it; without it amd64
    kernel = "linux-image-cloud-amd64"      # the package
    kernel_suite = "trixie-backports"       # the suite of the kernel, if another one
    packages = ["runc/experimental"]        # further ones, or the suite of one of the recipe's
    overlays = ["containerd-v2"]            # folders of vm/guest

    [cgroup_v1]
    kernel_arguments = [...]                # the kernel arguments for cgroup v1, or:
    refused = "why it cannot boot with cgroup v1"

An addition, vm/additions/NAME.toml, has the same lists and is applied on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError
from memqos.validation import CheckedFile
from memqos.vm.architecture import AMD64, ARCHITECTURES, Architecture
from memqos.vm.profile import GuestFile, LegacyBoot, Profile, Program, SourceFile

__all__ = ["addition_names", "load_profile", "profile_names"]

_Kind = TypeVar("_Kind")
_Text = Annotated[str, Meta(min_length=1, description="a string that is not empty")]


class _Addition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lists of the recipe, a profile and an addition."""

    packages: tuple[_Text, ...] = ()
    overlays: tuple[_Text, ...] = ()
    kernel_arguments: tuple[_Text, ...] = ()
    masked_units: tuple[_Text, ...] = ()
    enabled_units: tuple[_Text, ...] = ()


class _Boot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel arguments for booting with cgroup v1, or why that is impossible."""

    kernel_arguments: tuple[_Text, ...] | None = None
    refused: _Text | None = None

    def __post_init__(self) -> None:
        if (self.kernel_arguments is None) == (self.refused is None):
            raise ValueError("'cgroup_v1' has either kernel_arguments or refused.")


class _Written(_Addition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a profile's file."""

    purpose: _Text
    suite: _Text
    kernel: _Text
    kernel_suite: _Text = ""
    architecture: Literal["amd64", "arm64", "ppc64le"] = "amd64"
    cgroup_v1: _Boot


def profile_names(root: Path | None = None) -> list[str]:
    """The available profiles, sorted."""
    return sorted(path.stem for path in _vm(root).joinpath("profiles").glob("*.toml"))


def addition_names(root: Path | None = None) -> list[str]:
    """The available additions, sorted."""
    return sorted(path.stem for path in _vm(root).joinpath("additions").glob("*.toml"))


def load_profile(name: str, root: Path | None = None, *, additions: Sequence[str] = ()) -> Profile:
    """The profile of this name with these additions.

    root: the data's folder; None is the one shipped with memqos. Raises UnknownNameError for an unknown name,
    ManifestError for an invalid file.
    """
    known = profile_names(root)
    if name not in known:
        raise UnknownNameError.of("profile", name, known)
    vm = _vm(root)
    written = _read(vm / "profiles" / f"{name}.toml", _Written)
    added = [_read(vm / "additions" / f"{addition}.toml", _Addition) for addition in additions]
    parts = [_read(vm / "recipe.toml", _Addition), written, *added]
    boot = written.cgroup_v1
    [architecture] = [one for one in ARCHITECTURES if one.name == written.architecture]
    init = next(_programs(vm / "initrd")) if architecture is not AMD64 else None
    return Profile(
        name=name,
        purpose=written.purpose,
        suite=written.suite,
        kernel=written.kernel,
        packages=_packages(one for part in parts for one in part.packages),
        kernel_arguments=tuple(_of_console(architecture, (one for part in parts for one in part.kernel_arguments))),
        masked_units=tuple(_of_console(architecture, (one for part in parts for one in part.masked_units))),
        enabled_units=tuple(one for part in parts for one in part.enabled_units),
        files=tuple(
            found
            for part in parts
            for overlay in part.overlays
            for found in _guest_files(vm / "guest" / overlay, vm / "profiles" / f"{name}.toml")
        ),
        programs=tuple(_programs(vm / "workload")),
        probes=tuple(_programs(vm / "probe")),
        kernel_suite=written.kernel_suite,
        cgroup_v1=LegacyBoot(kernel_arguments=boot.kernel_arguments or (), refused=boot.refused or ""),
        additions=tuple(additions),
        architecture=architecture,
        init=init,
    )


def _packages(given: Iterable[str]) -> tuple[str, ...]:
    """The packages in apt's notation, each of them once; one of another suite takes the place of the plain name."""
    names: dict[str, str] = {}
    for package in given:
        name = package.partition("/")[0]
        names[name] = package if "/" in package else names.get(name, package)
    return tuple(names.values())


def _of_console(architecture: Architecture, words: Iterable[str]) -> Iterator[str]:
    """The kernel arguments with the name of the architecture's serial console."""
    return (word.replace("{console}", architecture.console) for word in words)


def _read(file: Path, kind: type[_Kind]) -> _Kind:
    return CheckedFile.toml(file, what="the profile").checked((), kind)


def _vm(root: Path | None) -> Path:
    return (root or data_root()) / "vm"


def _guest_files(folder: Path, file: Path) -> Iterator[GuestFile]:
    if not folder.is_dir():
        raise ManifestError.at(f"there is no folder '{folder}'.", file=str(file), field="overlays", got=folder.name)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield GuestFile(path=f"/{path.relative_to(folder).as_posix()}", content=path.read_bytes())


def _programs(folder: Path) -> Iterator[Program]:
    """Each folder with C in it is a program."""
    for path in sorted({file.parent for file in folder.glob("*/*.c")}):
        files = sorted(path.glob("*.[ch]"))
        yield Program(
            name=path.name, sources=tuple(SourceFile(name=file.name, content=file.read_bytes()) for file in files)
        )
