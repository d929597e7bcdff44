"""Pod annotations that make a CRI runtime write other values into containers' cgroups than the kubelet requests.

CRI-O adds `unified` entries from an annotation after the kubelet's, so the annotation wins; it counts only if the
runtime handler or a workload allows it. Up to 1.34 its name is `io.kubernetes.cri-o.UnifiedCgroup.CONTAINER`; from 1.35
on `unified-cgroup.crio.io/CONTAINER`, and `io.kubernetes.cri-o.UnifiedCgroup/CONTAINER` if that is missing: the name
with a dot no longer has an effect.
Sources: CRI-O `AddUnifiedResourcesFromAnnotations`, `FilterDisallowedAnnotations`, `MutateSpecGivenAnnotations`,
`setCPUQuota`, 1.24 to 1.36; containerd `pod_annotations`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memqos.engine.translate.runtimes import Runtimes, Workload
from memqos.engine.translate.systemd import PROPERTY_OF
from memqos.engine.translate.versions import Feature, RuntimeName
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["AnnotatedRequest", "annotated", "annotation_notes", "pod_unmodelled", "read_annotations"]

OLD_UNIFIED, NEW_UNIFIED = "io.kubernetes.cri-o.UnifiedCgroup", "unified-cgroup.crio.io"
_UNIFIED = (OLD_UNIFIED, NEW_UNIFIED)
_PROPERTY = "org.systemd.property."
_CPU_QUOTA, _CPU_SHARED = "cpu-quota.crio.io", "cpu-shared.crio.io"
_FILTERED = (*_UNIFIED, _PROPERTY, _CPU_QUOTA, _CPU_SHARED)
"""Prefixes of annotations that CRI-O removes from a pod unless they are allowed."""

_ELSEWHERE: Mapping[str, str] = {
    "blockio.resources.beta.kubernetes.io/": "it selects a blockio class, which sets io files: a plan has none",
    "rdt.resources.beta.kubernetes.io/": "it selects an RDT class, which sets resctrl files and no cgroup files",
    "io.kubernetes.cri.blockio-class": "it selects a blockio class, which sets io files: a plan has none",
    "io.kubernetes.cri.rdt-class": "it selects an RDT class, which sets resctrl files and no cgroup files",
    "cpu-load-balancing.crio.io": "it changes cpuset files of containers with exclusive CPUs: a plan has none",
    "cgroup2-mount-hierarchy-rw.crio.io": "its containers may create cgroups below their own: a plan has none",
    "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw": "its containers may create cgroups below their own: a plan has "
    "none",
}  # fmt: skip
"""Annotations about resources that change no file of the plan, with the reason."""

_KNOB_OF = {name: knob for knob, name in PROPERTY_OF.items()}
_MILLI = 1000
_PERIOD, _LEAST_QUOTA = 100_000, 1000
_OVERRIDES = {"cpushares": "shares", "cpuquota": "quota", "cpuperiod": "period", "cpulimit": "limit"}


@dataclass(slots=True, kw_only=True)
class AnnotatedRequest:
    """A request after the CRI runtime applied annotations.

    by: the interface files set by an annotation, with its name. unmodelled: the files that an annotation changes in an
    unknown way, with the reason. refusal: the runtime's error about an annotation, "" for none.
    """

    resources: ContainerResources
    by: dict[str, str] = field(default_factory=dict)
    unmodelled: dict[Knob, str] = field(default_factory=dict)
    refusal: str = ""


def read_annotations(annotations: Mapping[str, str], runtimes: Runtimes) -> tuple[tuple[str, str], ...]:
    """The annotations of a pod that change its containers' files, in a fixed order."""
    if not annotations:
        return ()
    names: tuple[str, ...] = _FILTERED
    workload = runtimes.allowance.workload(annotations)
    if workload is not None:
        names = (*names, workload.activation, f"{workload.prefix}/")
    return tuple(sorted(item for item in annotations.items() if item[0].startswith(names)))


def annotated(
    sent: ContainerResources, annotations: Mapping[str, str], container: str, runtimes: Runtimes
) -> AnnotatedRequest:
    """The request for a container of a pod with these annotations."""
    found = AnnotatedRequest(resources=sent)
    if not annotations:
        return found
    runtime = runtimes.cri.runtime
    if runtime is RuntimeName.CRIO:
        _of_crio(found, annotations, container, runtimes)
    if runtime in {RuntimeName.CRIO, RuntimeName.CONTAINERD}:
        for name in annotations:
            knob = _KNOB_OF.get(name.removeprefix(_PROPERTY)) if name.startswith(_PROPERTY) else None
            if knob is not None and _may_count(name, annotations, runtimes):
                why = f"the annotation {name} sets a property of the scope, which is not modelled"
                found.unmodelled[Knob(knob)] = why
    return found


def pod_unmodelled(annotations: Mapping[str, str], runtimes: Runtimes) -> dict[Knob, str]:
    """The files of the pod's cgroup that an annotation changes in an unknown way, with the reason."""
    if not annotations or runtimes.cri.runtime is not RuntimeName.CRIO:
        return {}
    return dict(_quotas(annotations, "", runtimes))


def annotation_notes(
    annotations: Mapping[str, str], containers: tuple[str, ...], runtimes: Runtimes
) -> Iterator[tuple[str, str]]:
    """The annotations about resources that change nothing in a plan, each with the reason."""
    for name in sorted(annotations):
        elsewhere = next((why for prefix, why in _ELSEWHERE.items() if name.startswith(prefix)), "")
        if elsewhere:
            yield name, elsewhere
        elif name.startswith(_UNIFIED):
            why = _without_effect(name, annotations, containers, runtimes)
            if why:
                yield name, f"it has no effect: {why}"
            elif digits := [entry for entry in annotations[name].split(";") if _mistaken(entry)]:
                what = "write the amount with a different number of digits, or in base64"
                yield name, f"CRI-O decodes {' and '.join(digits)} as base64: {what}"
        elif name.startswith(_FILTERED) and not _may_count(name, annotations, runtimes):
            yield name, f"it has no effect: {_not_allowed(name, runtimes)}"


def _of_crio(found: AnnotatedRequest, annotations: Mapping[str, str], container: str, runtimes: Runtimes) -> None:
    for name in _unified_names(container, runtimes):
        if name not in annotations or not _may_count(name, annotations, runtimes):
            continue
        entries = _entries(annotations[name])
        if entries is None:
            found.refusal = f'invalid annotation "{name}"'
        elif _counts(name, annotations, runtimes):
            found.resources = replace(found.resources, unified={**found.resources.unified, **entries})
            found.by |= dict.fromkeys(entries, name)
        else:
            why = f"the annotation {name} sets it, and it is unknown whether the runtime handler allows that"
            found.unmodelled |= {knob: f"{why}: it would be {entries[knob]}" for knob in Knob if knob in entries}
        break
    found.unmodelled |= _quotas(annotations, container, runtimes)
    workload = runtimes.allowance.workload(annotations)
    if workload is not None:
        _of_workload(found, workload, annotations, container)


def _unified_names(container: str, runtimes: Runtimes) -> tuple[str, ...]:
    """The names that this version reads, in this order; the first present one counts."""
    if runtimes.cri.has(Feature.NEW_ANNOTATIONS):
        return f"{NEW_UNIFIED}/{container}", f"{OLD_UNIFIED}/{container}"
    return (f"{OLD_UNIFIED}.{container}",)


def _entries(text: str) -> dict[str, str] | None:
    """Interface file to text of "memory.high=8000000;memory.low=MTAwMDAw"; None where an entry has no "=".

    A value that is valid base64 is decoded, even a number: eight digits are valid base64.
    """
    entries = [entry.split("=", 1) for entry in text.split(";") if entry]
    if any(len(entry) == 1 for entry in entries):
        return None
    return {name: _decoded(value) for name, value in entries}


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return value


def _mistaken(entry: str) -> bool:
    """Whether an entry's number is decoded as base64."""
    value = entry.partition("=")[2]
    return value.isdecimal() and _decoded(value) != value


def _quotas(annotations: Mapping[str, str], container: str, runtimes: Runtimes) -> Iterator[tuple[Knob, str]]:
    """The high-performance hooks remove the quota of the container and of its pod."""
    for name, value in annotations.items():
        quota = name.startswith(_CPU_QUOTA) and value in {"disable", "true"}
        shared = name.startswith(_CPU_SHARED)
        of_another = "/" in name and container and name.split("/", 1)[1] != container
        if (quota or shared) and not of_another and _may_count(name, annotations, runtimes):
            yield Knob.CPU_MAX, f"the annotation {name} makes CRI-O change the quota, which is not modelled"


def _of_workload(found: AnnotatedRequest, workload: Workload, annotations: Mapping[str, str], container: str) -> None:
    name = f"{workload.prefix}/{container}"
    if name in annotations:
        try:
            own = _overrides(annotations[name])
        except ValueError as error:
            found.refusal = f'invalid annotation "{name}": {error}'
            return
        given = {key: value for key, value in own.items() if value}
        workload = replace(workload, **given)
        if workload.limit:
            quota = max(workload.limit * (workload.period or _PERIOD) // _MILLI, _LEAST_QUOTA)
            workload = replace(workload, quota=quota)
    by = name if name in annotations else workload.activation
    said: dict[str, Any] = {
        "cpu_shares": workload.shares,
        "cpu_quota": workload.quota,
        "cpu_period": workload.period,
        "cpuset_cpus": workload.cpus,
    }
    said = {key: value for key, value in said.items() if value}
    found.resources = replace(found.resources, **said)
    files = {"cpu_shares": Knob.CPU_WEIGHT, "cpuset_cpus": Knob.CPUSET_CPUS}
    found.by |= {files.get(key, Knob.CPU_MAX).value: by for key in said}


def _overrides(text: str) -> dict[str, Any]:
    """The content of a workload annotation's JSON; ValueError for any other text."""
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - it is the text that is wrong
    found: dict[str, Any] = {}
    for name, field_name in _OVERRIDES.items():
        number = given.get(name, 0)
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError(f"{name} is not a whole number")  # noqa: TRY004 - as above
        found[field_name] = number
    cpus = given.get("cpuset", "")
    if not isinstance(cpus, str):
        raise ValueError("cpuset is not a string")  # noqa: TRY004 - as above
    return {**found, "cpus": cpus}


def _counts(name: str, annotations: Mapping[str, str], runtimes: Runtimes) -> bool:
    """Whether the CRI runtime's configuration enables an annotation."""
    allowed = runtimes.allowance.names(annotations)
    if runtimes.cri.runtime is RuntimeName.CRIO:
        known = [one for one in _FILTERED if name.startswith(one)]
        return all(one in allowed for one in known)
    if runtimes.cri.runtime is RuntimeName.CONTAINERD:
        return name.startswith(_PROPERTY) and any(_matches(name, pattern) for pattern in allowed)
    return False


def _matches(name: str, pattern: str) -> bool:
    """Whether a name matches the pattern; a star at its end matches any rest."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _may_count(name: str, annotations: Mapping[str, str], runtimes: Runtimes) -> bool:
    """Whether the runtime acts on the annotation, or may, if its configuration is unknown."""
    if _counts(name, annotations, runtimes):
        return True
    reads = runtimes.cri.runtime is RuntimeName.CRIO or (
        runtimes.cri.runtime is RuntimeName.CONTAINERD and name.startswith(_PROPERTY)
    )
    return reads and not runtimes.allowance.known


def _not_allowed(name: str, runtimes: Runtimes) -> str:
    base = next(one for one in _FILTERED if name.startswith(one))
    if runtimes.cri.runtime is RuntimeName.CRIO:
        return f"{runtimes.cri} acts on it only where the runtime handler allows {base} (allowed_annotations)"
    if runtimes.cri.runtime is RuntimeName.CONTAINERD and base == _PROPERTY:
        return f"{runtimes.cri} passes it on only if pod_annotations of the runtime allow it"
    return f"{runtimes.cri} does not read it"


def _without_effect(name: str, annotations: Mapping[str, str], containers: tuple[str, ...], runtimes: Runtimes) -> str:
    """Why an annotation for unified changes nothing; "" if it changes something, or may."""
    if runtimes.cri.runtime is not RuntimeName.CRIO:
        return f"{runtimes.cri} does not read it"
    read = {_unified_names(one, candidate) for candidate in runtimes.candidates for one in containers}
    if not any(name in names for names in read):
        if name not in {f"{base}{mark}{one}" for base in _UNIFIED for mark in "./" for one in containers}:
            return "the pod has no container of this name"
        return f"{runtimes.cri} looks for {' or '.join(sorted(names[0] for names in read))}"
    for first, *others in read:
        if name in others and first in annotations and _counts(first, annotations, runtimes):
            return f"{first} takes precedence"
    return "" if _may_count(name, annotations, runtimes) else _not_allowed(name, runtimes)
