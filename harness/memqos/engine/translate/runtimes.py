"""The runtimes of a node: their versions, and what their configuration allows and sets.

crio.conf allows annotations by handler and by workload. Source: CRI-O pkg/config/config.go
(`RuntimeHandler.AllowedAnnotations`) and pkg/config/workloads.go, 1.24 to 1.36.

For all containers of a node it has the cgroup manager, and a limit of processes. Source: CRI-O pkg/config/config.go
`CgroupManagerName`, `PidsLimit`; server/container_create.go, which writes the limit as linux.resources.pids.limit;
internal/config/cgmgr, which refuses a parent cgroup of the other driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from memqos.engine.cgroup.layout import Layout
from memqos.engine.translate.systemd import SYSTEMD
from memqos.engine.translate.versions import OF_CLASS, SANDBOXED, RuntimeName, Traits, traits_of, unmodelled_traits
from memqos.model.node import CgroupDriver, RuntimeFlavour

__all__ = ["BUNDLES", "NOTHING_ALLOWED", "TRIXIE", "Allowance", "CrioSettings", "Handler", "Runtimes", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload of crio.conf: settings for the pods that have its activation annotation.

    prefix: of the annotation `PREFIX/CONTAINER`, whose JSON overrides resources for one container. allowed: further
    annotations for its pods. shares, quota and period (µs), limit (milli-CPUs): 0 means not set; cpus: "" means not
    set.
    """

    name: str
    activation: str
    prefix: str = ""
    allowed: tuple[str, ...] = ()
    shares: int = 0
    quota: int = 0
    period: int = 0
    limit: int = 0
    cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The annotations that a runtime handler allows.

    allowed: prefixes of annotations; for containerd, patterns with *. known: whether the configuration is known; if
    not, an annotation that is not listed may be allowed.
    """

    allowed: tuple[str, ...] = ()
    workloads: tuple[Workload, ...] = ()
    known: bool = True

    def workload(self, annotations: Mapping[str, str]) -> Workload | None:
        """The workload that a pod with these annotations activates; None if it activates none."""
        return next((one for one in self.workloads if one.activation in annotations), None)

    def names(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """All names allowed for a pod with these annotations."""
        workload = self.workload(annotations)
        return self.allowed if workload is None else (*self.allowed, *workload.allowed)


NOTHING_ALLOWED = Allowance()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioSettings:
    """cgroup_manager: None if no file sets it; CRI-O's default is systemd. pids_limit: 0 or less is no limit.

    origin: the name of a setting to its file, with the line if known.
    """

    cgroup_manager: CgroupDriver | None = None
    pids_limit: int = 0
    origin: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def driver(self) -> CgroupDriver:
        """The driver that CRI-O reports to the kubelet."""
        return self.cgroup_manager or CgroupDriver.SYSTEMD

    @property
    def place(self) -> str:
        """The place of cgroup_manager, to end a phrase: " (crio.conf:3)"."""
        where = self.origin.get("cgroup_manager", "")
        return f" ({where})" if where else ""

    def notes(self) -> Iterator[tuple[str, str, str]]:
        """Notes on a plan: a setting, its place, and one clause about it."""
        if self.pids_limit > 0:
            what = (
                f"CRI-O writes {self.pids_limit} into pids.max of every container, which is not planned: a plan has "
                "pids.max of pods and of the levels above, and the lowest limit counts"
            )
            yield "pids_limit", self.origin.get("pids_limit", ""), what


_RUNTIME_OF_CLASS = {
    "runc": RuntimeName.RUNC,
    "crun": RuntimeName.CRUN,
    "runsc": RuntimeName.RUNSC,
    "gvisor": RuntimeName.RUNSC,
}


def _known_by(names: Iterable[str]) -> Traits:
    """The OCI runtime after which a RuntimeClass or its handler is named; the names of both, the class's first."""
    first, *others = names
    for name in (*others, first):
        runtime = RuntimeName.KATA if name.startswith(RuntimeName.KATA) else _RUNTIME_OF_CLASS.get(name)
        if runtime is not None:
            return traits_of(runtime, "")
    return unmodelled_traits(f"{OF_CLASS}{first}", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A CRI runtime's configuration for one runtime handler; allowance None is that of the default handler."""

    oci: Traits
    allowance: Allowance | None = None


_FLAVOURS = {
    RuntimeName.CONTAINERD: RuntimeFlavour.CONTAINERD,
    RuntimeName.CRIO: RuntimeFlavour.CRIO,
    RuntimeName.DOCKER: RuntimeFlavour.DOCKER,
    RuntimeName.PODMAN: RuntimeFlavour.PODMAN,
    RuntimeName.BUNDLES: RuntimeFlavour.BUNDLES,
    RuntimeName.CRI_DOCKERD: RuntimeFlavour.DOCKER,
    RuntimeName.OTHER_CRI: RuntimeFlavour.OTHER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtimes:
    """The runtimes of a node.

    cri, oci: the CRI runtime, or Docker, and its OCI runtime. hugetlb: whether containerd is configured to pass huge
    page limits on (`disable_hugetlb_controller = false`); CRI-O always does, and Docker cannot. systemd: its version.
    allowance: the pod annotations that the CRI runtime's configuration allows. handlers: RuntimeClass, or its handler,
    to its configured OCI runtime and allowance. crio: further settings of crio.conf; None if no crio.conf was read.
    every_class: whether pods of every RuntimeClass run on these, as in a run of memqos.
    """

    cri: Traits
    oci: Traits
    hugetlb: bool = False
    systemd: int = SYSTEMD
    allowance: Allowance = NOTHING_ALLOWED
    handlers: Mapping[str, Handler] = field(default_factory=dict, hash=False)
    crio: CrioSettings | None = None
    every_class: bool = False

    @property
    def passes_huge_pages(self) -> bool:
        """Whether huge page limits reach the container."""
        if self.cri.runtime is RuntimeName.CONTAINERD:
            return self.hugetlb
        return self.cri.runtime not in {RuntimeName.DOCKER, RuntimeName.PODMAN}

    @property
    def sandboxed(self) -> bool:
        """Whether all containers of a pod run in one sandbox, so a container's own cgroup limits nothing.

        Docker and memqos itself request single containers from runsc: then each is a sandbox with its own cgroup.
        """
        alone = {RuntimeName.DOCKER, RuntimeName.PODMAN, RuntimeName.CRI_DOCKERD, RuntimeName.BUNDLES}
        return self.oci.runtime in SANDBOXED and self.cri.runtime not in alone

    @property
    def modelled(self) -> bool:
        """Whether every file of a container is modelled for these runtimes."""
        return self.cri.modelled and self.oci.modelled and self.oci.runtime is not RuntimeName.KATA

    def of_class(self, runtime_class: str, handler: str = "") -> Runtimes:
        """The runtimes for pods of this RuntimeClass; "" means the default ones.

        handler: that of the class, "" if unknown. Without an entry in `handlers`, the name of the handler or class
        decides if it is an OCI runtime's: runc, crun, gvisor or runsc, kata and names that begin with kata. Any other
        runtime is not modelled.
        """
        if not runtime_class or self.every_class:
            return self
        names = [name for name in (runtime_class, handler) if name]
        found = next((self.handlers[name] for name in names if name in self.handlers), None)
        found = found or Handler(oci=_known_by(names))
        same = found.oci.runtime is self.oci.runtime and not found.oci.version and self.oci.modelled
        allowance = self.allowance if found.allowance is None else found.allowance
        return replace(self, oci=self.oci if same else found.oci, allowance=allowance)

    @property
    def candidates(self) -> tuple[Runtimes, ...]:
        """All runtimes that these versions may mean, the newest first."""
        return tuple(
            replace(self, cri=cri, oci=oci) for cri, oci in itertools.product(self.cri.candidates, self.oci.candidates)
        )

    def layout(self, driver: CgroupDriver) -> Layout:
        """The cgroups of containers, as they name them."""
        flavour = _FLAVOURS[self.cri.runtime]
        return Layout(
            driver=driver, flavour=flavour, subgroup=self.oci.subgroup, certain=self.modelled, sandboxed=self.sandboxed
        )

    def __str__(self) -> str:
        return f"{self.cri} with {self.oci}"


BUNDLES = replace(traits_of(RuntimeName.BUNDLES, ""), called="memqos's own bundles")
"""The traits of memqos itself between a request and a directly driven OCI runtime."""


TRIXIE = Runtimes(cri=traits_of(RuntimeName.CONTAINERD, "1.7.24"), oci=traits_of(RuntimeName.RUNC, "1.1.15"))
"""Debian trixie's runtimes, the default."""
