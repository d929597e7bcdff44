"""UEFI for machines: found by the descriptors in every distribution's QEMU firmware packages.

Their format is docs/interop/firmware.json of QEMU; files of a folder are tried in the order of their names, and the
administrator's folder comes first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from memqos.errors import MissingProgramError
from memqos.vm.architecture import Architecture
from memqos.vm.host.programs import install_advice

__all__ = ["FOLDERS", "Uefi", "find_uefi"]

FOLDERS = (Path("/etc/qemu/firmware"), Path("/usr/share/qemu/firmware"))
MACHINES = {"amd64": ("q35", "ovmf"), "arm64": ("virt", "qemu-efi-aarch64")}
"""By architecture, QEMU's machine type, and Debian's package with a UEFI for it."""

UNWANTED = frozenset({"requires-smm", "enrolled-keys", "secure-boot"})
"""Features that need another machine type, or refuse kernels without a known signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uefi:
    """Files of a UEFI, raw: the code, and the template of its variables, which each machine copies."""

    code: Path
    variables: Path


def find_uefi(architecture: Architecture, *, folders: Sequence[Path] = FOLDERS) -> Uefi:
    """The first UEFI without secure boot for the machines of this architecture.

    Raises MissingProgramError naming the package, and KeyError for an architecture whose machines have no UEFI.
    """
    machine, package = MACHINES[architecture.name]
    for descriptor in _descriptors(folders):
        found = _of(descriptor, architecture.machine, machine)
        if found is not None and found.code.is_file() and found.variables.is_file():
            return found
    raise MissingProgramError(
        f"the image boots by UEFI, and this host has no UEFI for QEMU's {architecture.machine}.",
        next_step=install_advice([package]),
        data={"program": package, "package": package},
    )


def _descriptors(folders: Sequence[Path]) -> Iterator[dict[str, object]]:
    names: dict[str, Path] = {}
    for folder in reversed(folders):
        names |= {file.name: file for file in folder.glob("*.json")}
    for name in sorted(names):
        try:
            read = json.loads(names[name].read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(read, dict):
            yield read


def _of(descriptor: dict[str, object], architecture: str, machine: str) -> Uefi | None:
    """The files of a matching descriptor; None for others, and for one that is malformed."""
    try:
        mapping, targets = descriptor["mapping"], descriptor["targets"]
        fits = any(
            target["architecture"] == architecture and any(f"-{machine}-" in f"-{name}-" for name in target["machines"])
            for target in targets  # type: ignore[attr-defined]
        )
        code, variables = mapping["executable"], mapping["nvram-template"]  # type: ignore[index]
        is_plain = mapping["device"] == "flash" and {code["format"], variables["format"]} == {"raw"}  # type: ignore[index]
        kinds, features = descriptor["interface-types"], set(descriptor["features"])  # type: ignore[call-overload]
        if fits and is_plain and "uefi" in kinds and not features & UNWANTED:  # type: ignore[operator]
            return Uefi(code=Path(code["filename"]), variables=Path(variables["filename"]))
    except (KeyError, TypeError, IndexError):
        pass
    return None
