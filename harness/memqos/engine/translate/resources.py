"""The values of translations: linux.resources, values that cannot be expressed, and a runtime's writes.

Classes needed for every planned container are not frozen, though nothing changes them: freezing took a tenth of a
plan's time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from memqos.engine.translate.systemd import SYSTEMD
from memqos.model.node import CgroupDriver, CgroupVersion

__all__ = [
    "DockerTranslation",
    "OciResources",
    "OciTranslation",
    "Refused",
    "RuntimeHost",
    "RuntimeWrites",
    "Unsayable",
    "checked_unified",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsayable:
    """A value that the other language cannot express.

    knob: the interface file (or "oom_score_adj") that does not change. value: the wanted text. why: one sentence.
    wordless: whether it was not requested, since there is no field for it: the file's text is then no finding about a
    runtime.
    """

    knob: str
    value: str
    why: str
    wordless: bool = False


@dataclass(slots=True, kw_only=True)
class OciResources:
    """`linux.resources` of the OCI runtime specification, as far as container runtimes fill it.

    None is a missing field; zero is a field with 0; -1 is "no limit" for the memory amounts (bytes) and the quota (µs).
    memory_swap: memory and swap together. check_before_update: whether an update refuses a limit below current usage.
    cpus, mems: lists such as "0-3,5"; "" is a field without CPUs or nodes. hugepage_limits: page size name ("2MB") and
    bytes, in order, the last of a size wins. unified: interface file name to text, cgroup v2 only.
    """

    memory_limit: int | None = None
    memory_reservation: int | None = None
    memory_swap: int | None = None
    check_before_update: bool | None = None
    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    cpus: str | None = None
    mems: str | None = None
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    unified: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The object of config.json, without unset sections and fields."""
        sections: dict[str, dict[str, int | str | None]] = {
            "memory": {
                "limit": self.memory_limit,
                "reservation": self.memory_reservation,
                "swap": self.memory_swap,
                "checkBeforeUpdate": self.check_before_update,
            },
            "cpu": {
                "shares": self.cpu_shares,
                "quota": self.cpu_quota,
                "period": self.cpu_period,
                "cpus": self.cpus,
                "mems": self.mems,
            },
        }
        found: dict[str, object] = {}
        for name, section in sections.items():
            given = {key: value for key, value in section.items() if value is not None}
            if given:
                found[name] = given
        if self.hugepage_limits:
            found["hugepageLimits"] = [{"pageSize": size, "limit": limit} for size, limit in self.hugepage_limits]
        if self.unified:
            found["unified"] = dict(self.unified)
        return found

    def over(self, before: OciResources) -> OciResources:
        """The earlier fields, overwritten by those set here; entries of unified one by one."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "unified"}
        said = {name: value for name, value in given.items() if value not in {None, ()}}
        return replace(before, **said, unified={**before.unified, **self.unified})


@dataclass(slots=True, kw_only=True)
class OciTranslation:
    """The request to the OCI runtime.

    resources: linux.resources of the container (create) or of the update request. oom_score_adj: process.oomScoreAdj,
    None in updates, which cannot change it. refusal: the CRI runtime's error, "" for none; after an error nothing
    reaches the OCI runtime.
    """

    resources: OciResources
    oom_score_adj: int | None = None
    unsayable: tuple[Unsayable, ...] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerTranslation:
    """A HostConfig, and the values that it cannot express.

    host_config: the JSON object for `POST /containers/create`, with the necessary fields only.
    annotations: OCI annotations by which runc and crun set memory.min and memory.high through systemd:
    `HostConfig.Annotations`, engine 24 (API 1.43) and later, systemd driver; `unsayable` has these values too.
    """

    host_config: Mapping[str, int | str]
    unsayable: tuple[Unsayable, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):  # noqa: N818 - it is an answer, and leaves this package as one
    """The runtime's error; see `RuntimeWrites.refusal`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHost:
    """The facts about the node that decide for runtimes.

    driver: the cgroup driver. cgroup_version, page_size: the kernel's, in bytes. swap_file: whether memory.swap.max
    exists, or memory.memsw.limit_in_bytes on cgroup v1. hugetlb_reservations: whether hugetlb.<size>.rsvd.max exists
    (Linux 5.7). systemd: its version, 240 at least. subgroup: the annotation `run.oci.systemd.subgroup`, which only
    crun reads; None: not given, "": "none".
    """

    driver: CgroupDriver = CgroupDriver.SYSTEMD
    cgroup_version: CgroupVersion = CgroupVersion.V2
    page_size: int = 4096
    swap_file: bool = True
    hugetlb_reservations: bool = True
    systemd: int = SYSTEMD
    subgroup: str | None = None


@dataclass(slots=True, kw_only=True)
class RuntimeWrites:
    """One application of linux.resources.

    files: (interface file, text) in the order of writing, in the cgroup with the processes; the last one of a name
    counts. scope: computes the properties, which plans do not need; None for none.
    subgroup: the cgroup below the scope in which `files` are, "" for the scope itself. refusal: the runtime's error, ""
    for none; after an error nothing is written.
    """

    files: tuple[tuple[str, str], ...] = ()
    scope: Callable[[], Mapping[str, int | str]] | None = None
    subgroup: str = ""
    refusal: str = ""

    @property
    def properties(self) -> Mapping[str, int | str] | None:
        """The systemd scope's properties: numbers (bytes, INFINITY is max), lists of CPUs and nodes as text.

        None with the cgroupfs driver, which creates no scope, and on cgroup v1, where they are not modelled.
        """
        return None if self.scope is None else self.scope()

    @property
    def texts(self) -> dict[str, str]:
        """Interface file to the last text written."""
        return {str(name): text for name, text in self.files}


def checked_unified(unified: Mapping[str, str]) -> None:
    """Raise Refused for a key that is not a file name: both runtimes check it."""
    for name in unified:
        if "/" in name:
            raise Refused(f"unified resource '{name}' must be a file name (no slashes)")
