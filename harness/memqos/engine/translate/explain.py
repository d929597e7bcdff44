"""A container's translation as text and JSON: the fields in each language, those it lacks, and the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from memqos.engine.translate.container import ContainerTranslation, HeldFile
from memqos.engine.translate.resources import Unsayable
from memqos.engine.translate.systemd import INFINITY, property_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = [
    "Document",
    "Language",
    "cri_document",
    "flat_document",
    "knob_lines",
    "oci_names",
    "property_text",
    "translation_document",
    "translation_lines",
]

Document = dict[str, Any]


class Language(StrEnum):
    """The languages for a container's resources; FILES are the files that the OCI runtime writes."""

    CRI = "cri"
    OCI = "oci"
    DOCKER = "docker"
    FILES = "files"


# Interface file to its fields: in CRI, in OCI (section.field), in Docker. Unified entries and huge page limits have the
# file's own name.
_FIELDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    Knob.MEMORY_MAX: (("memory_limit_in_bytes",), ("memory.limit",), ("Memory",)),
    Knob.MEMORY_SWAP_MAX: (("memory_swap_limit_in_bytes",), ("memory.swap",), ("MemorySwap",)),
    Knob.MEMORY_LOW: ((), ("memory.reservation",), ("MemoryReservation",)),
    Knob.CPU_WEIGHT: (("cpu_shares",), ("cpu.shares",), ("CpuShares",)),
    Knob.CPU_MAX: (("cpu_quota", "cpu_period"), ("cpu.quota", "cpu.period"), ("CpuQuota", "CpuPeriod")),
    Knob.CPUSET_CPUS: (("cpuset_cpus",), ("cpu.cpus",), ("CpusetCpus",)),
    Knob.CPUSET_MEMS: (("cpuset_mems",), ("cpu.mems",), ("CpusetMems",)),
    Knob.PIDS_MAX: ((), (), ("PidsLimit",)),
    Knob.MEMORY_LIMIT_IN_BYTES: (("memory_limit_in_bytes",), ("memory.limit",), ("Memory",)),
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: (("memory_swap_limit_in_bytes",), ("memory.swap",), ("MemorySwap",)),
    Knob.MEMORY_SOFT_LIMIT_IN_BYTES: ((), ("memory.reservation",), ("MemoryReservation",)),
    Knob.CPU_SHARES: (("cpu_shares",), ("cpu.shares",), ("CpuShares",)),
    Knob.CPU_CFS_QUOTA_US: (("cpu_quota",), ("cpu.quota",), ("CpuQuota",)),
    Knob.CPU_CFS_PERIOD_US: (("cpu_period",), ("cpu.period",), ("CpuPeriod",)),
}


def cri_document(resources: ContainerResources) -> Document:
    """The specified fields of a CRI message; hugepage_limits keep their zeros, which are sent."""
    found: Document = {
        "cpu_period": resources.cpu_period,
        "cpu_quota": resources.cpu_quota,
        "cpu_shares": resources.cpu_shares,
        "memory_limit_in_bytes": resources.memory_limit_in_bytes,
        "memory_swap_limit_in_bytes": resources.memory_swap_limit_in_bytes,
        "oom_score_adj": resources.oom_score_adj,
        "cpuset_cpus": resources.cpuset_cpus,
        "cpuset_mems": resources.cpuset_mems,
        "hugepage_limits": [{"page_size": size, "limit": limit} for size, limit in resources.hugepage_limits],
        "unified": dict(resources.unified),
    }
    return {name: value for name, value in found.items() if value}


def translation_document(found: ContainerTranslation) -> Document:
    """The translation as JSON; the CRI message itself is in the container's `cri`.

    cri: unspecified values, and values that an update cannot remove. oci, docker: the document, and the values that it
    cannot express. files: null if the container is refused; after_reload is null if it is not modelled.
    """
    return {
        "runtimes": [found.cri, found.oci_runtime],
        "refusal": found.refusal,
        "cri": {"unsaid": _unsayable(found.cri_unsaid), "final": [one.knob for one in found.cri_final]},
        "oci": {
            "resources": found.oci.resources.document(),
            "oom_score_adj": found.oci.oom_score_adj,
            "unsayable": _unsayable(found.oci.unsayable),
        },
        "docker": {
            "host_config": dict(found.docker.host_config),
            "annotations": dict(found.docker.annotations),
            "unsayable": _unsayable(found.docker.unsayable),
        },
        "files": _files_document(found),
    }


def _unsayable(left: Iterable[Unsayable]) -> list[Document]:
    return [{"knob": one.knob, "value": one.value, "why": one.why} for one in left]


def _files_document(found: ContainerTranslation) -> Document | None:
    if found.refusal:
        return None

    def held(files: Iterable[HeldFile]) -> list[Document]:
        return [
            {"name": one.name, "written": one.written or None, "shows": one.shows, "after_reload": one.reloaded or None}
            for one in files
        ]

    properties = found.writes.properties
    shown = None if properties is None else {name: property_text(value) for name, value in properties.items()}
    return {
        "below_scope": found.writes.subgroup,
        "own": held(found.files),
        "scope": held(found.scope),
        "properties": shown,
    }


def translation_lines(
    sent: ContainerResources, found: ContainerTranslation, languages: Iterable[Language], *, indent: str = ""
) -> Iterator[str]:
    """Each of these languages, one line per field, with the values that it cannot express; then the files."""
    for language in languages:
        title, body = {
            Language.CRI: ("CRI LinuxContainerResources, as the kubelet sends them", _cri_lines(sent, found)),
            Language.OCI: (f"OCI linux.resources, as {found.cri} makes them", _oci_lines(found)),
            Language.DOCKER: ("the equivalent Docker HostConfig", _docker_lines(found)),
            Language.FILES: (f"interface files, as {found.oci_runtime} writes them", _file_lines(found)),
        }[language]
        yield f"{indent}{title}"
        yield from (f"{indent}  {line}" for line in body)


def _cri_lines(sent: ContainerResources, found: ContainerTranslation) -> Iterator[str]:
    yield from _said(flat_document(cri_document(sent)))
    yield from (f"does not set {one.knob} {one.value}: {one.why}" for one in found.cri_unsaid)
    if found.cri_final:
        yield f"cannot remove in an update: {', '.join(one.knob for one in found.cri_final)}"


def _oci_lines(found: ContainerTranslation) -> Iterator[str]:
    if found.oci.refusal:
        yield f"refused by {found.cri}: {found.oci.refusal}"
        return
    yield from _said(flat_document(found.oci.resources.document()))
    yield f"process.oomScoreAdj {found.oci.oom_score_adj}"
    yield from _unsaid(found.oci.unsayable)


def _docker_lines(found: ContainerTranslation) -> Iterator[str]:
    yield from _said(flat_document(found.docker.host_config))
    yield from _unsaid(found.docker.unsayable)
    for name, value in found.docker.annotations.items():
        yield f"annotation {name}={value} (engine 24 and later, systemd driver)"


def _file_lines(found: ContainerTranslation) -> Iterator[str]:
    if found.refusal:
        yield f"refused: {found.refusal}"
        return
    for one in found.files:
        yield f"{one.name:<17} {_held(one)}"
    if found.writes.properties is not None:
        words = [f"{name}={property_text(value)}" for name, value in found.writes.properties.items()]
        yield f"properties of the scope: {' '.join(words) or 'none'}"
    if found.writes.subgroup:
        yield f"these files are in the cgroup '{found.writes.subgroup}' below the scope; the scope itself has:"
        yield from (f"  {one.name:<17} {one.shows}" for one in found.scope)


def _held(one: HeldFile) -> str:
    parts = [one.written]
    if one.shows != one.written:
        parts.append(f"reads {one.shows}")
    if one.reloaded not in {one.shows, ""}:
        parts.append(f"after a daemon-reload {one.reloaded}")
    return ", ".join(parts)


def _said(fields: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{name} {value}" for name, value in fields.items())
    if not fields:
        yield "nothing"


def _unsaid(left: Iterable[Unsayable]) -> Iterator[str]:
    return (f"cannot set {one.knob} {one.value}: {one.why}" for one in left)


def property_text(value: int | str) -> str:
    """A property as systemctl prints it."""
    return "infinity" if value == INFINITY else str(value)


def flat_document(document: Mapping[str, Any]) -> dict[str, str]:
    """A document's fields by name: "memory.limit", "unified memory.high", "hugepage_limits 2MB"."""
    found: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            joint = " " if name == "unified" else "."
            found |= {f"{name}{joint}{key}": str(one) for key, one in value.items()}
        elif isinstance(value, list):
            for entry in value:
                size, limit = entry.values()
                found[f"{name} {size}"] = str(limit)
        else:
            found[name] = str(value)
    return found


def oci_names(knob: str) -> frozenset[str]:
    """The fields of linux.resources behind an interface file, by the names of `flat_document`."""
    _, fields, _ = _FIELDS.get(knob, ((), (), ()))
    # Swap is memory+swap less memory.
    more = _FIELDS[Knob.MEMORY_MAX][1] if knob == Knob.MEMORY_SWAP_MAX else ()
    return frozenset({*fields, *more, f"unified {knob}", f"hugepageLimits {_page_size(knob)}"})


def _page_size(knob: str) -> str:
    return knob.removeprefix("hugetlb.").removesuffix(".max").removesuffix(".limit_in_bytes")


def knob_lines(sent: ContainerResources, found: ContainerTranslation, knob: Knob, *, indent: str = "") -> list[str]:
    """One interface file at each hop: its field in each language, and the resulting file."""
    size = _page_size(knob)
    classic = _FIELDS.get(knob, ((), (), ()))
    spoken = (
        ("CRI", cri_document(sent), found.cri_unsaid),
        ("OCI", found.oci.resources.document(), found.oci.unsayable),
        ("Docker", found.docker.host_config, found.docker.unsayable),
    )
    lines: list[str] = []
    for (language, document, unsaid), fields in zip(spoken, classic, strict=True):
        names = {*fields, f"unified {knob}", f"hugepage_limits {size}", f"hugepageLimits {size}"}
        said = [f"{name} = {value}" for name, value in flat_document(document).items() if name in names]
        said += [f"cannot: {one.why}" for one in unsaid if one.knob == knob]
        lines.append(f"{indent}{language:<8} {'; '.join(said) or 'does not set it'}")
    held = [one for one in found.files if one.name == knob]
    text = f"{found.oci_runtime} writes {_held(held[0]) if held else 'nothing'}"
    properties = found.writes.properties
    name = property_of(knob)
    if properties and name in properties:
        text += f"; property {name}={property_text(properties[name])}"
    lines.append(f"{indent}{'file':<8} {f'refused: {found.refusal}' if found.refusal else text}")
    return lines
