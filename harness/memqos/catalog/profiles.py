"""Loads vm/profiles/NAME.toml on top of vm/recipe.toml, with everything of ours that goes into the image.

The recipe says what is the same for every profile; a profile's lists are added to the recipe's.

    purpose = "what it is there for"
    suite = "trixie"                        # Debian's code name
    kernel = "linux-image-cloud-amd64"      # the package
    kernel_suite = "trixie-backports"       # where the kernel comes from, if not from the suite
    overlays = ["containerd-v2"]            # folders of vm/guest

    [cgroup_v1]
    kernel_arguments = [...]                # the words that boot it with cgroup v1, or:
    refused = "why it cannot"

An addition, vm/additions/NAME.toml, has the same lists, and is added where somebody asks for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from memqos.catalog.data import data_root
from memqos.errors import ManifestError, UnknownNameError
from memqos.vm.profile import GuestFile, LegacyBoot, Profile, Program, SourceFile

__all__ = ["addition_names", "load_profile", "profile_names"]

TEXTS = ("purpose", "suite", "kernel")
LISTS = ("packages", "overlays", "kernel_arguments", "masked_units", "enabled_units")
KERNEL_SUITE = "kernel_suite"
CGROUP_V1 = "cgroup_v1"


def profile_names(root: Path | None = None) -> list[str]:
    """The profiles that are there, sorted."""
    return sorted(path.stem for path in _vm(root).joinpath("profiles").glob("*.toml"))


def addition_names(root: Path | None = None) -> list[str]:
    """What can be added to a profile, sorted."""
    return sorted(path.stem for path in _vm(root).joinpath("additions").glob("*.toml"))


def load_profile(name: str, root: Path | None = None, *, additions: Sequence[str] = ()) -> Profile:
    """The profile of this name, with what is to be added to it.

    root: the data's folder; None is the one that travels with memqos.
    Raises UnknownNameError for a name that is none, ManifestError for a file that says something wrong.
    """
    known = profile_names(root)
    if name not in known:
        raise UnknownNameError.of("profile", name, known)
    vm = _vm(root)
    recipe_file, file = vm / "recipe.toml", vm / "profiles" / f"{name}.toml"
    recipe = _document(recipe_file, fields=LISTS)
    document = _document(file, fields=(*TEXTS, *LISTS, KERNEL_SUITE, CGROUP_V1))
    parts = [(recipe, recipe_file), (document, file)]
    for addition in additions:
        added = vm / "additions" / f"{addition}.toml"
        parts.append((_document(added, fields=LISTS), added))

    def text(field: str) -> str:
        return _text(document, field, file)

    def listed(field: str) -> tuple[str, ...]:
        return tuple(item for part, place in parts for item in _texts(part, field, place))

    return Profile(
        name=name,
        purpose=text("purpose"),
        suite=text("suite"),
        kernel=text("kernel"),
        packages=listed("packages"),
        kernel_arguments=listed("kernel_arguments"),
        masked_units=listed("masked_units"),
        enabled_units=listed("enabled_units"),
        files=tuple(found for overlay in listed("overlays") for found in _guest_files(vm / "guest" / overlay, file)),
        programs=tuple(_programs(vm / "workload")),
        probes=tuple(_programs(vm / "probe")),
        kernel_suite=text(KERNEL_SUITE) if KERNEL_SUITE in document else "",
        cgroup_v1=_legacy_boot(document, file),
        additions=tuple(additions),
    )


def _document(file: Path, *, fields: tuple[str, ...]) -> dict[str, object]:
    """A TOML file that has no other fields than these."""
    try:
        document = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"is not TOML: {error}.", file=str(file)) from error
    for field in document:
        if field not in fields:
            raise ManifestError.at("is not a field of a profile.", file=str(file), field=field)
    return document


def _legacy_boot(document: dict[str, object], file: Path) -> LegacyBoot:
    """The table cgroup_v1: the words, or the refusal."""
    table = document.get(CGROUP_V1)
    if not isinstance(table, dict) or len(table) != 1 or not set(table) <= {"kernel_arguments", "refused"}:
        what = "must be a table with either kernel_arguments or refused."
        raise ManifestError.at(what, file=str(file), field=CGROUP_V1, got=table)
    if "refused" in table:
        return LegacyBoot(refused=_text(table, "refused", file))
    return LegacyBoot(kernel_arguments=_texts(table, "kernel_arguments", file))


def _vm(root: Path | None) -> Path:
    return (root or data_root()) / "vm"


def _text(document: dict[str, object], field: str, file: Path) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not value:
        raise ManifestError.at("must be a text that is not empty.", file=str(file), field=field, got=value)
    return value


def _texts(document: dict[str, object], field: str, file: Path) -> tuple[str, ...]:
    value = document.get(field, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ManifestError.at("must be a list of texts.", file=str(file), field=field, got=value)
    return tuple(value)


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
