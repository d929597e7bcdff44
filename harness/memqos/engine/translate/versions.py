"""Differences between versions of container runtimes and OCI runtimes: one table of facts.

Sources: the runtimes' own repositories at their release tags. Each row gives the first version with a behaviour. If a
version's text is ambiguous, such as 1.3 without a patch release or no version at all, the traits are in doubt, not
guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.cgroup.layout import CRUN_SUBGROUP

__all__ = [
    "CRI_RUNTIMES",
    "DRIVEN_DIRECTLY",
    "FEATURES",
    "NEWEST",
    "OCI_RUNTIMES",
    "OF_CLASS",
    "SANDBOXED",
    "UNKNOWN",
    "Feature",
    "Row",
    "RuntimeName",
    "Traits",
    "newer_than_modelled",
    "release_span",
    "traits_of",
    "traits_of_program",
    "unmodelled_traits",
]


class RuntimeName(StrEnum):
    """The programs that translate: CRI to OCI (the first seven), and OCI to interface files (the others).

    DOCKER is the Docker Engine; memqos sends it a CRI request as a HostConfig. PODMAN has the same API. BUNDLES is
    memqos itself: it makes bundles for an OCI runtime that it drives directly, like containerd. OTHER_CRI and OTHER_OCI
    stand for programs that are not modelled: `Traits.called` has their names.
    """

    CONTAINERD = "containerd"
    CRIO = "cri-o"
    DOCKER = "docker"
    PODMAN = "podman"
    BUNDLES = "bundles"
    CRI_DOCKERD = "cri-dockerd"
    OTHER_CRI = "other CRI server"
    RUNC = "runc"
    CRUN = "crun"
    RUNSC = "runsc"
    KATA = "kata"
    OTHER_OCI = "other OCI runtime"


CRI_RUNTIMES = (RuntimeName.CONTAINERD, RuntimeName.CRIO, RuntimeName.DOCKER, RuntimeName.PODMAN)
OCI_RUNTIMES = (RuntimeName.RUNC, RuntimeName.CRUN)
"""The runtimes of nodes, with names for users."""
DRIVEN_DIRECTLY = (*OCI_RUNTIMES, RuntimeName.RUNSC)
"""The runtimes that memqos can drive without a daemon. runsc (gVisor) has its own containerd shim."""


SANDBOXED = (RuntimeName.RUNSC, RuntimeName.KATA)
"""The OCI runtimes that run all containers of a pod in one sandbox, if a CRI runtime asks them to."""

UNKNOWN = "of unknown version"
OF_CLASS = "the runtime of RuntimeClass "
"""The name of a runtime known only by its RuntimeClass."""


NEWEST: Mapping[RuntimeName, str] = {
    RuntimeName.CONTAINERD: "2.3",
    RuntimeName.CRIO: "1.36",
    RuntimeName.DOCKER: "28",
    RuntimeName.PODMAN: "5.4",
    RuntimeName.CRI_DOCKERD: "0.4",
    RuntimeName.RUNC: "1.5",
    RuntimeName.CRUN: "1.29",
    RuntimeName.RUNSC: "20260817",
    RuntimeName.KATA: "3.32",
}
"""The newest release of each runtime from whose source the rules were taken."""


class Feature(StrEnum):
    """One behaviour that newer versions have and older ones lack; the value completes "this version …"."""

    SWAP_FOLLOWS_MEMORY = "treats a memory limit without a swap limit as no swap"
    SWAP_NEEDS_CONTROLLER = "drops a swap limit if the swap controller is missing"
    UPDATE_KEEPS_UNIFIED = "passes unified in updates"
    QUADRATIC_WEIGHT = "converts cpu.shares to cpu.weight by the quadratic formula"
    UPDATE_KEEPS_MEMORY = "keeps a memory or swap limit that an update does not name"
    OOM_GROUP_IS_OOM_POLICY = "sets OOMPolicy on the scope for memory.oom.group, from systemd 253 on"
    ROUNDED_QUOTA_IN_FILE = "writes the quota that systemd rounded into cpu.max too"
    MISSING_SWAP_FILE_TOLERATED = "tolerates a missing memory.swap.max if it should hold 0 or max"
    UNLIMITED_MEMORY_TAKES_SWAP = "writes a swap limit unchanged if the memory limit is unlimited"
    HUGETLB_RESERVATIONS = "writes hugetlb.<size>.rsvd.max as well as hugetlb.<size>.max"
    CPUSET_BYTES_IN_ORDER = "gives systemd the bytes of a CPU or node set in systemd's order"
    ZERO_SWAP_IS_ZERO = "writes a memory+swap limit of 0 as 0, instead of rejecting it"
    NEGATIVE_IS_MAX = "treats every negative limit as max, not only -1"
    SCOPE_HAS_MEMORY_LIMIT = "sets MemoryLimit on the scope"
    SCOPE_HAS_QUOTA_AND_CPUSET = "sets the CPU quota and the allowed CPUs and nodes on the scope"
    SCOPE_HAS_MEMORY_MAX = "sets MemoryMax on the scope"
    SCOPE_HAS_PROTECTION = "sets MemoryMin, MemoryLow, MemoryHigh and MemorySwapMax on the scope"
    HAS_UPDATE = "has an update command"
    NEW_ANNOTATIONS = "reads annotations named *.crio.io"
    READS_UNIFIED = "reads unified, with the cgroupfs driver"
    CHECKS_BEFORE_UPDATE = "rejects an update to a limit below current usage, if asked to check"
    MEMORY_POLICY = "sets the NUMA memory policy of linux.memoryPolicy"
    REFUSES_WRONG_SWAP = "rejects a memory+swap limit below the memory limit, with the cgroupfs driver too"


_ALWAYS = (0,)


@dataclass(frozen=True, slots=True)
class Row:
    """The first release of a runtime with a feature, and its source.

    since: the first release, as numbers; (0,) for every one. upstream: issues and pull requests, as owner/name#number
    (name#number where both are the same), else the function. before: the fault of older versions; "" for none.
    backport: the first older release with it, and the next one without it; () for none.
    """

    since: tuple[int, ...]
    upstream: str
    before: str = ""
    backport: tuple[tuple[int, ...], ...] = ()

    @property
    def release(self) -> str:
        """The first release as text, such as 1.36; "" for every one."""
        return "" if self.since == _ALWAYS else ".".join(map(str, self.since))

    def holds(self, version: tuple[float, ...]) -> bool:
        """Whether a release has the feature."""
        return self.since <= version or bool(self.backport and self.backport[0] <= version < self.backport[1])


FEATURES: Mapping[RuntimeName, Mapping[Feature, Row]] = {
    RuntimeName.CONTAINERD: {
        Feature.SWAP_FOLLOWS_MEMORY: Row(
            (1, 6, 13), "containerd#7783, containerd#7815", "A container with only a memory limit may swap."
        ),
        Feature.SWAP_NEEDS_CONTROLLER: Row(
            (1, 7, 3),
            "containerd#8857, containerd#8870",
            "A container with a swap limit fails if the swap controller is missing.",
            ((1, 6, 22), (1, 7)),
        ),
        Feature.UPDATE_KEEPS_UNIFIED: Row(_ALWAYS, "containerd WithResources"),
    },
    RuntimeName.CRIO: {
        Feature.SWAP_FOLLOWS_MEMORY: Row(_ALWAYS, "cri-o#3564"),
        Feature.SWAP_NEEDS_CONTROLLER: Row(_ALWAYS, "cri-o#4485, cri-o#4488"),
        Feature.UPDATE_KEEPS_UNIFIED: Row(
            (1, 36),
            "cri-o#9816, cri-o#9820",
            "An update drops unified: the files keep their values, an invalid entry is accepted, and the status still "
            "reports the values of creation; seen with 1.32.13.",
        ),
        Feature.NEW_ANNOTATIONS: Row((1, 35), "cri-o#9537"),
    },
    RuntimeName.DOCKER: {
        Feature.SWAP_FOLLOWS_MEMORY: Row(_ALWAYS, "memqos sets MemorySwap with Memory"),
        Feature.SWAP_NEEDS_CONTROLLER: Row(_ALWAYS, "moby verifyPlatformContainerResources"),
    },
    RuntimeName.PODMAN: {
        Feature.SWAP_FOLLOWS_MEMORY: Row(_ALWAYS, "memqos sets MemorySwap with Memory"),
        Feature.SWAP_NEEDS_CONTROLLER: Row(_ALWAYS, "podman verifyContainerResourcesCgroupV2"),
    },
    RuntimeName.BUNDLES: {
        Feature.SWAP_FOLLOWS_MEMORY: Row(_ALWAYS, "as containerd"),
        Feature.SWAP_NEEDS_CONTROLLER: Row(_ALWAYS, "as containerd"),
        Feature.UPDATE_KEEPS_UNIFIED: Row(_ALWAYS, "as containerd"),
    },
    RuntimeName.RUNC: {
        Feature.CPUSET_BYTES_IN_ORDER: Row(
            (1, 1, 6),
            "opencontainers/runc#3808",
            "With more than eight CPUs or NUMA nodes the scope allows the wrong ones.",
        ),
        Feature.HUGETLB_RESERVATIONS: Row(
            (1, 1, 10),
            "opencontainers/runc#3859, opencontainers/runc#4077",
            "A reservation beyond the limit succeeds, and the program is killed when it uses it.",
        ),
        Feature.MISSING_SWAP_FILE_TOLERATED: Row(
            (1, 2), "opencontainers/runc#4188", "A container without swap fails if memory.swap.max is missing."
        ),
        Feature.UPDATE_KEEPS_MEMORY: Row(
            (1, 2), "opencontainers/runc#4211", "An update loses the memory and swap limits that it does not name."
        ),
        Feature.CHECKS_BEFORE_UPDATE: Row((1, 2), "opencontainers/runc#3579"),
        Feature.UNLIMITED_MEMORY_TAKES_SWAP: Row(
            (1, 2, 1), "opencontainers/runc#4501", "A swap limit with an unlimited memory limit is rejected."
        ),
        Feature.QUADRATIC_WEIGHT: Row((1, 3, 2), "opencontainers/runc#4772, opencontainers/runc#4785"),
        Feature.ROUNDED_QUOTA_IN_FILE: Row(
            (1, 3, 2), "opencontainers/cgroups#4", "A daemon-reload rounds a CPU quota up to a whole percent."
        ),
        Feature.MEMORY_POLICY: Row(
            (1, 4), "opencontainers/runtime-spec#1282, opencontainers/runc#4915", "linux.memoryPolicy is ignored."
        ),
        # In opencontainers/cgroups 0.0.8, which runc's main branch vendors; 1.5.1 and its branch have 0.0.6.
        Feature.OOM_GROUP_IS_OOM_POLICY: Row(
            (1, 6), "opencontainers/cgroups#41", "A daemon-reload resets memory.oom.group."
        ),
    },
    RuntimeName.CRUN: {
        Feature.CHECKS_BEFORE_UPDATE: Row((1, 7), "containers/crun#1015"),
        Feature.SCOPE_HAS_MEMORY_LIMIT: Row((1, 8, 5), "containers/crun#1217"),
        Feature.ZERO_SWAP_IS_ZERO: Row((1, 8, 6), "containers/crun#1241", "A memory+swap limit of 0 is rejected."),
        Feature.SCOPE_HAS_QUOTA_AND_CPUSET: Row((1, 11), "containers/crun#1332"),
        Feature.NEGATIVE_IS_MAX: Row((1, 13), "containers/crun#1384", "A limit below -1 is written as a number."),
        Feature.SCOPE_HAS_MEMORY_MAX: Row((1, 16), "containers/crun#1490"),
        Feature.SCOPE_HAS_PROTECTION: Row(
            (1, 18),
            "containers/crun#1574",
            "The scope above a container has no memory.min or memory.low, so those of the container count only with "
            "memory_recursiveprot.",
        ),
        Feature.QUADRATIC_WEIGHT: Row((1, 23), "containers/crun#1767"),
        Feature.MEMORY_POLICY: Row(
            (1, 24), "opencontainers/runtime-spec#1282, containers/crun#1852", "linux.memoryPolicy is ignored."
        ),
    },
    RuntimeName.RUNSC: {
        Feature.HAS_UPDATE: Row((20260202,), "google/gvisor#9876"),
        Feature.READS_UNIFIED: Row((20260413,), "google/gvisor#12884", "unified is dropped."),
        Feature.REFUSES_WRONG_SWAP: Row(
            (20260615,),
            "google/gvisor#13276",
            "A memory+swap limit below the memory limit is accepted, and no memory file is written.",
        ),
    },
    RuntimeName.CRI_DOCKERD: {},
    RuntimeName.KATA: {},
    RuntimeName.OTHER_CRI: {},
    RuntimeName.OTHER_OCI: {},
}
"""The table: each runtime's versions by feature. No version has a feature that is missing here."""


_NUMBERS = {RuntimeName.CRUN: 2, RuntimeName.RUNSC: 2}
"""The count of numbers in a release's name, if not three."""

_BEFORE_DATE = r"(?:release-|0\.0~)?"
"""The prefix of the date in a release name of runsc: its own, and Debian's."""

_BETWEEN_RELEASES = re.compile(r"[+.-]dev\b|-\d+-g[0-9a-f]{4,}")
"""The mark of a build after a release: runc 1.3.1+dev, containerd v2.0.1-12-g1a2b3c4."""

_MAIN_OF_RUNC = re.compile(r"\.0-rc\.?\d+\+dev\b")
"""The mark of a build of runc's main branch, 1.5.0-rc.1+dev, which keeps it until the next minor's first candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The behaviour of one version of a runtime; `version` is the text from which it was made, "" if unknown.

    in_doubt: features that only some of the possible versions have. called: name and version of a runtime that is not
    in the table; "" for one that is. below: for such a runtime, the cgroup below a systemd scope in which its processes
    were observed; "" for the scope itself.
    """

    runtime: RuntimeName
    version: str
    features: frozenset[Feature]
    in_doubt: frozenset[Feature] = frozenset()
    called: str = ""
    below: str = ""

    def has(self, feature: Feature) -> bool:
        """Whether this version behaves so for certain."""
        return feature in self.features

    def known(self, feature: Feature) -> bool | None:
        """Whether this version behaves so; None if in doubt."""
        return None if feature in self.in_doubt else feature in self.features

    def without(self, feature: Feature) -> Traits:
        """The same without a feature."""
        if feature not in self.features:
            return self
        return replace(self, features=self.features - {feature})

    @property
    def modelled(self) -> bool:
        """Whether the table has this runtime; otherwise only a specification is known."""
        return self.runtime not in {RuntimeName.OTHER_CRI, RuntimeName.OTHER_OCI}

    @property
    def weight(self) -> WeightConversion:
        """The conversion of cpu.shares, for OCI runtimes."""
        return WeightConversion.QUADRATIC if self.has(Feature.QUADRATIC_WEIGHT) else WeightConversion.LINEAR

    @property
    def candidates(self) -> tuple[Traits, ...]:
        """Every behaviour that the version may have, the newest first; itself if nothing is in doubt."""
        # As keys they are unique and keep this order.
        found = dict.fromkeys(self.features | (has & self.in_doubt) for has in _behaviours(self.runtime, self.version))
        return tuple(replace(self, features=features, in_doubt=frozenset()) for features in found)

    @property
    def subgroup(self) -> str:
        """The cgroup below a systemd scope that holds the processes on cgroup v2, "" for the scope itself.

        Every version of crun in the table makes one, unless the annotation `run.oci.systemd.subgroup` says otherwise.
        """
        return CRUN_SUBGROUP if self.runtime is RuntimeName.CRUN else self.below

    def __str__(self) -> str:
        if self.called:
            return self.called
        return f"{self.runtime} {self.version or UNKNOWN}"


def traits_of(runtime: RuntimeName | str, version: str) -> Traits:
    """The traits of a version such as "1.7.24", "v2.1.9" or Debian's "1.1.15+ds1-2+b4".

    ValueError for a runtime that is not in `RuntimeName`.
    """
    runtime = RuntimeName(runtime)
    found = _behaviours(runtime, version)
    certain = frozenset.intersection(*found)
    return Traits(
        runtime=runtime, version=version, features=certain, in_doubt=frozenset[Feature]().union(*found) - certain
    )


@lru_cache(maxsize=256)
def _behaviours(runtime: RuntimeName, version: str) -> tuple[frozenset[Feature], ...]:
    """The features of the releases that a version may mean, newest first: the oldest, and those with a change."""
    oldest, newest = release_span(runtime, version)
    rows = FEATURES[runtime]
    changes = {release for row in rows.values() for release in (row.since, *row.backport) if oldest < release <= newest}
    return tuple(
        frozenset(feature for feature, row in rows.items() if row.holds(release))
        for release in (*sorted(changes, reverse=True), oldest)
    )


def traits_of_program(name: str, version: str, known: tuple[RuntimeName, ...]) -> Traits:
    """The traits of a runtime that a machine reports. known: the CRI runtimes of the table, or its OCI runtimes.

    Any other program is not modelled. One without a name counts as the first of the known, with all differences between
    its versions in doubt.
    """
    if name in known:
        return traits_of(name, version)
    if name:
        return unmodelled_traits(name, version, cri=RuntimeName.RUNC not in known)
    return replace(traits_of(known[0], ""), called=f"{name} {version or UNKNOWN}")


def unmodelled_traits(name: str, version: str, *, cri: bool = False) -> Traits:
    """The traits of a runtime that is not in the table; cri: whether it is a CRI server, else it is an OCI runtime."""
    runtime = RuntimeName.OTHER_CRI if cri else RuntimeName.OTHER_OCI
    return replace(traits_of(runtime, version), called=f"{name} {version}" if version else name)


def newer_than_modelled(traits: Traits) -> str:
    """The newest modelled release, if the version is newer; "" otherwise, or without a number."""
    newest = NEWEST.get(traits.runtime, "")
    oldest, _ = release_span(traits.runtime, traits.version)
    known = tuple(int(part) for part in newest.split(".") if part)
    return newest if known and oldest[: len(known)] > known else ""


def release_span(runtime: RuntimeName, version: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The oldest and the newest release whose behaviour a version may have; all for an unreadable text."""
    prefix = _BEFORE_DATE if runtime is RuntimeName.RUNSC else "v?"
    match = re.match(rf"{prefix}(\d{{1,9}}(?:\.\d{{1,9}})*)(?!\d)", version, re.ASCII)
    if match is None:
        return _ALWAYS, (math.inf,)
    numbers = tuple(int(part) for part in match[1].split("."))
    of_a_release = _NUMBERS.get(runtime, 3)
    if len(numbers) < of_a_release:
        return numbers, (*numbers, math.inf)
    if runtime is RuntimeName.RUNC and _MAIN_OF_RUNC.search(version):
        return numbers, (numbers[0], numbers[1] + 1, 0)
    # crun writes a commit after 1.22 as 1.22.0.0.0.5-1a2b.
    if _BETWEEN_RELEASES.search(version) or len(numbers) > 3:  # noqa: PLR2004
        return numbers, (*numbers[: of_a_release - 1], numbers[of_a_release - 1] + 1)
    return numbers, numbers
