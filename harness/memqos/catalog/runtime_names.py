"""Names and versions of runtimes as people write them, "cri-o@1.36+crun@1.21", and as recordings have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from memqos.engine.translate.versions import (
    BUNDLES,
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    TRIXIE,
    RuntimeName,
    Runtimes,
    Traits,
    traits_of,
    unmodelled_traits,
)
from memqos.errors import UsageError

__all__ = ["oci_named", "runtimes_named", "runtimes_recorded"]

_CRI = (*CRI_RUNTIMES, RuntimeName.CRI_DOCKERD, RuntimeName.OTHER_CRI, RuntimeName.BUNDLES)
_KNOWN = {name.value: name for name in (*CRI_RUNTIMES, RuntimeName.CRI_DOCKERD, *DRIVEN_DIRECTLY, RuntimeName.KATA)}
_ALSO = {
    "crio": RuntimeName.CRIO,
    "gvisor": RuntimeName.RUNSC,
    "containerd-shim-runsc-v1": RuntimeName.RUNSC,
    "kata-runtime": RuntimeName.KATA,
    "kata-containers": RuntimeName.KATA,
    "containerd-shim-kata-v2": RuntimeName.KATA,
}
"""Other names that some of them go by."""

_DIRECTLY = "oci:"
"""Before an OCI runtime that is driven without a CRI runtime."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9.+~:_-]{1,80}", re.ASCII)
_NUMBERED = re.compile(r"(?:v|release-)?\d", re.ASCII)
_WORD = re.compile(r"[A-Za-z][A-Za-z._-]+", re.ASCII)
_OF_VERSIONS = frozenset(
    {"dev", "dirty", "ds", "dfsg", "deb", "git", "incompatible", "unknown", "really", "nmu", "fips"}
)
"""Words that stand behind a plus sign in versions: runc 1.3.1+dev."""
_EXAMPLE = "Write NAME@VERSION, such as runc@1.1.15, crun@1.21 or containerd@1.7.24+runc@1.3.6."


def runtimes_named(text: str, beside: Runtimes = TRIXIE, *, where: str = "--runtime") -> Runtimes:
    """The runtimes in a text like "cri-o@1.36+crun@1.21"; what it does not name is taken from `beside`.

    A name that is not known is that of a runtime that is not modelled: of the CRI server if an OCI runtime follows it
    or it begins with "cri", else of the OCI runtime.

    Raises UsageError for a text that holds no name, for a known runtime without a version, and two of a kind.
    """
    directly = text.startswith(_DIRECTLY)
    parts = _parts(text.removeprefix(_DIRECTLY))
    names = [part.partition("@")[0] for part in parts]
    found = [
        _traits(part, cri=_is_cri(names, index, directly=directly), where=where) for index, part in enumerate(parts)
    ]
    cri = [*([BUNDLES] if directly else []), *(one for one in found if one.runtime in _CRI)]
    oci = [one for one in found if one.runtime not in _CRI]
    if len(cri) > 1 or len(oci) > 1:
        raise UsageError(f"'{_shown(text)}' names two runtimes of one kind.", where=where, next_step=_EXAMPLE)
    return replace(beside, cri=cri[0] if cri else beside.cri, oci=oci[0] if oci else beside.oci)


def oci_named(text: str, *, where: str = "--crio-config") -> Traits:
    """The OCI runtime in a text like "runsc@20240729"; one without a version is of unknown version.

    UsageError for a text that holds no name, and for a CRI runtime.
    """
    name, _, version = text.partition("@")
    _checked(name, version, text, where)
    known = _known(name)
    if known in _CRI:
        raise UsageError(f"'{_shown(text)}' is not an OCI runtime.", where=where, next_step=_EXAMPLE)
    return unmodelled_traits(name, version) if known is None else traits_of(known, version)


def runtimes_recorded(recorded: Mapping[str, str]) -> Runtimes:
    """The runtimes of a recording, by name and version; of one that is not modelled the name is in the version.

    A kubelet speaks to the Docker Engine through cri-dockerd, which calls itself docker.
    """
    found = Runtimes(cri=traits_of(RuntimeName.CONTAINERD, ""), oci=traits_of(RuntimeName.RUNC, ""))
    for name, version in recorded.items():
        if name == RuntimeName.DOCKER:
            found = replace(found, cri=traits_of(RuntimeName.CRI_DOCKERD, ""))
        elif name == RuntimeName.OTHER_CRI:
            found = replace(found, cri=unmodelled_traits(*_named_text(version), cri=True))
        elif name == RuntimeName.OTHER_OCI:
            found = replace(found, oci=unmodelled_traits(*_named_text(version)))
        elif name in _KNOWN:
            traits = traits_of(name, version)
            found = replace(found, cri=traits) if traits.runtime in _CRI else replace(found, oci=traits)
    return found


def _named_text(text: str) -> tuple[str, str]:
    name, _, version = text.partition(" ")
    return name, version


def _parts(text: str) -> list[str]:
    """The text at those plus signs that stand between two runtimes: versions, such as Debian's, have some too."""
    first, *others = text.split("+")
    parts = [first]
    for piece in others:
        name, mark, _ = piece.partition("@")
        named = bool(mark) or _known(name) is not None or (_WORD.fullmatch(name) and name not in _OF_VERSIONS)
        if named:
            parts.append(piece)
        else:
            parts[-1] += f"+{piece}"
    return parts


def _known(name: str) -> RuntimeName | None:
    return _KNOWN.get(name) or _ALSO.get(name)


def _is_cri(names: list[str], index: int, *, directly: bool) -> bool:
    """Whether a name that is not known is that of a CRI server."""
    if directly:
        return False
    others = [_known(name) for place, name in enumerate(names) if place != index]
    if not others:
        return names[index].lower().startswith("cri")
    return others[0] not in _CRI if others[0] is not None else index == 0


def _traits(text: str, *, cri: bool, where: str) -> Traits:
    name, mark, version = text.partition("@")
    _checked(name, version if mark else None, text, where)
    known = _known(name)
    if known is None:
        return unmodelled_traits(name, version, cri=cri)
    differs = bool(traits_of(known, "").in_doubt)
    if not _NUMBERED.match(version) and (differs or mark):
        raise UsageError(f"'{_shown(text)}' has no version.", where=where, next_step=_EXAMPLE)
    return traits_of(known, version)


def _checked(name: str, version: str | None, text: str, where: str) -> None:
    """Raise UsageError for what no name and no version of a program has in it."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"there is no runtime '{_shown(name)}'.", where=where, next_step=_EXAMPLE)
    if version and not _VERSION.fullmatch(version):
        what = f"'{_shown(text)}' is not a name and version: a version has letters, digits and . + ~ : _ - in it."
        raise UsageError(what, where=where, next_step=_EXAMPLE)


def _shown(text: str) -> str:
    """What of a text a message can hold."""
    return "".join(one if one.isprintable() else "?" for one in text[:80])
