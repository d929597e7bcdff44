"""Stations: a machine with one of its runtimes, its node, and the folder of its evidence.

A machine can have several runtimes. Each gets its own station, one after another, with its own number, so that their
evidence stays separate.

Also the name and version of a machine's runtimes, as they report them or as the user states them.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.config.settings import Settings
from memqos.config.systems import SystemKey
from memqos.config.table import oci_runtime
from memqos.enactor.admission import patience_with_pods
from memqos.enactor.base import Patience
from memqos.enactor.kubelet.session import KubeletSession, kubelet_session
from memqos.enactor.registry import KUBELET, MEMQOS, KubeletAccess, Maker
from memqos.engine.answer.finding import Finding
from memqos.engine.answer.succession import is_kept
from memqos.engine.releases.release import Release
from memqos.engine.translate.runtimes import BUNDLES, Runtimes
from memqos.engine.translate.specification import judged_by
from memqos.engine.translate.versions import CRI_RUNTIMES, DRIVEN_DIRECTLY, UNKNOWN, Feature, traits_of_program
from memqos.known import runtime_versions
from memqos.laboratory.evidence import Folder, MachineLog, Sink, capture, host
from memqos.laboratory.kubelets_in_use import kubelet_version
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.node.connection import node_on
from memqos.node.node_under_test import NodeUnderTest
from memqos.place.base import OfferedRuntime, Place
from memqos.place.opening import KUBELET_BINARY, KUBELET_UPGRADE, Places
from memqos.runtime.base import Runtime, RuntimeVersion
from memqos.target.attended import attended
from memqos.target.base import Target

__all__ = [
    "Notices",
    "Owner",
    "Station",
    "Stations",
    "runtimes_in_use",
    "runtimes_of",
]


def runtimes_of(*, cri: str, cri_version: str, oci: str, oci_version: str, hugetlb: bool, below: str = "") -> Runtimes:
    """The runtimes, containerd or CRI-O over runc or crun, from the engine's table of versions.

    hugetlb: whether the CRI runtime is configured to pass huge page limits on. Traits that an unreadable version leaves
    open stay open. A CRI server or an OCI runtime outside the table is not modelled. cri: "" for an OCI runtime that is
    driven directly. below: as for `OciProgram`.
    """
    traits = traits_of_program(oci, oci_version, DRIVEN_DIRECTLY)
    return Runtimes(
        cri=traits_of_program(cri, cri_version, CRI_RUNTIMES) if cri else BUNDLES,
        oci=traits if traits.modelled else replace(traits, below=below),
        hugetlb=hugetlb,
    )


# Every plan of containers depends on these; the other features affect only messages and rare nodes.
_PLANNED = {Feature.QUADRATIC_WEIGHT, Feature.SWAP_FOLLOWS_MEMORY, Feature.ROUNDED_QUOTA_IN_FILE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimesInUse:
    """The CRI runtime, None without one, and the OCI runtime below it.

    oci_version: "" if unknown. remark: a note on the origin of name and version, "" for those of the machine's image.
    hugetlb: whether huge page limits reach containers. below: as for `OciProgram`.
    """

    cri: RuntimeVersion | None
    oci: str
    oci_version: str
    remark: str
    hugetlb: bool
    below: str = ""

    @property
    def runtimes(self) -> Runtimes:
        """Their traits for the engine."""
        return runtimes_of(
            cri="" if self.cri is None else self.cri.name,
            cri_version="" if self.cri is None else self.cri.version,
            oci=self.oci,
            oci_version=self.oci_version,
            hugetlb=self.hugetlb,
            below=self.below,
        )

    @property
    def doubt(self) -> str:
        """A note on what is not observable because a version is unknown, with its remedy; "" if all is known."""
        runtimes = self.runtimes
        unmodelled = [] if runtimes.cri.modelled else [f"{self.shown[0]}: {judged_by(runtimes.cri)}"]
        if not runtimes.oci.modelled:
            stated = "--runtime-version states it, if this is a build of runc or crun"
            unmodelled.append(f"{self.shown[-1]}: {judged_by(runtimes.oci)}; {stated}")
        if unmodelled:
            return "; ".join(unmodelled)
        if not _PLANNED & (runtimes.cri.in_doubt | runtimes.oci.in_doubt):
            return ""
        return (
            f"it is unknown which version's rules apply to {' and '.join(self.shown)}: what differs between versions "
            "is not observable; --runtime-version states the OCI runtime's version"
        )

    @property
    def shown(self) -> list[str]:
        """Both as text: "containerd 1.7.24", "runc of unknown version (a given file)"."""
        remark = f" ({self.remark})" if self.remark else ""
        cri = [] if self.cri is None else [f"{self.cri.name} {self.cri.version}"]
        return [*cri, f"{self.oci} {self.oci_version or UNKNOWN}{remark}"]


def runtimes_in_use(said: RuntimeVersion, offer: OfferedRuntime, settings: Settings) -> RuntimesInUse:
    """The runtimes as the place reports them, with the user's overrides.

    If a file replaces the OCI runtime, the file's own version counts.
    """
    asked, oci = oci_runtime(offer.name), offer.oci
    name, version = oci.name, oci.version
    remarks = ["a given file" if name == asked else f"a given file in {asked}'s place"] if oci.is_brought else []
    if settings.runtime_version is not None:
        stated_name, stated = settings.runtime_version.name, settings.runtime_version.version
        remarks.append(f"by {settings.origins['runtime_version']}")
        if version and (version != stated or name != (stated_name or name)):
            remarks.append(f"it reports {name} {version}")
        name, version = stated_name or (name if name in DRIVEN_DIRECTLY else asked), stated
    above = None if offer.is_direct else said
    return RuntimesInUse(
        cri=above,
        oci=name,
        oci_version=version,
        remark=", ".join(remarks),
        hugetlb=offer.hugetlb,
        below=oci.below,
    )


FIRST_WORD_SECONDS = 60.0


class Notices(Protocol):
    """Receives progress: steps that begin and end, notes, and single lines."""

    def start(self, name: str) -> None:
        """A step begins."""
        ...

    def done(self, name: str) -> None:
        """A step ended well."""
        ...

    def note(self, text: str) -> None:
        """A sentence for the reader."""
        ...

    def line(self, text: str) -> None:
        """A separate line."""
        ...


class Owner(Protocol):
    """Decides what happens to pods and machines when a context ends."""

    def leaves(self, place: Place) -> bool:
        """Whether pods stay on this machine, because it is kept, broken, or about to be deleted."""
        ...

    def lingers(self) -> bool:
        """Whether pods stay until their node is used again."""
        ...

    def closes(self, place: Place, folder: Folder) -> None:
        """This machine's context is about to end; folder: where its evidence is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletsUnderTest:
    """The kubelets of a machine. versions: by path in the machine ("v1.36.2"), the kubelet under test first."""

    session: KubeletSession
    versions: Mapping[str, str]

    @property
    def under_test(self) -> list[str]:
        """The first kubelet, as reports and lists of known deviations show it."""
        return [f"kubelet {next(iter(self.versions.values()))}"]

    def shown(self, finding: Finding) -> list[str]:
        """The kubelet that wrote the observed value, as text: "kubelet v1.36.2".

        A value that outlived an upgrade or a rollback is the other kubelet's; any other is of the one that was started
        last.
        """
        last = self.session.binary or next(iter(self.versions))
        others = [path for path in self.versions if path != last]
        kept = is_kept(finding.reason) and others
        return [f"kubelet {self.versions[others[0] if kept else last]}"]


class Station:
    """A machine with its node and its evidence. key: the system under test.

    runtimes: by name and version, as reports show them. first: the id of the first station on
    the same machine; its own id unless given. kubelets: None without a kubelet under test.
    """

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the word that bundles use
        key: SystemKey,
        place: Place,
        node: NodeUnderTest,
        log: MachineLog,
        folder: Folder,
        runtimes: Sequence[str] = (),
        first: str = "",
        kubelets: KubeletsUnderTest | None = None,
    ) -> None:
        self.id = id
        self.key = key
        self.place = place
        self.node = node
        self.log = log
        self.folder = folder
        self.runtimes = runtimes
        self.first = first or id
        self._kubelets = kubelets

    @property
    def driver(self) -> CgroupDriver:
        """The cgroup driver of the system under test."""
        return self.key.driver

    def versions_behind(self, finding: Finding) -> Mapping[str, str]:
        """The versions of the kernel, of the runtimes, and of the kubelet that wrote the finding's value."""
        kubelet = [] if self._kubelets is None else self._kubelets.shown(finding)
        return runtime_versions([*self.runtimes, *kubelet], kernel=self.node.facts.kernel)

    def capture(self, folder: Path) -> None:
        """Gather what explains a failure in this folder."""
        capture(self.place, Folder(folder), used=self.log.sink.folder)


class Stations:
    """Opens the stations of one process. results: the folder of their evidence, each below machines/ID.

    builds: the SHA-256 of each file that the user gave, by path, taken when the run began. worker: the prefix of
    station ids. address: the host's name if it is not the run's, else "". facts: corrections of a machine's own facts.
    enactor: the name of what carries out plans, see `enactor.registry`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        results: Path,
        notices: Notices,
        owner: Owner,
        builds: Mapping[str, str],
        worker: str = "main",
        address: str = "",
        facts: Callable[[NodeFacts], NodeFacts] = lambda facts: facts,
        enactor: str | Maker = MEMQOS,
    ) -> None:
        self._settings = settings
        self._enactor = enactor
        self._results = results
        self._notices = notices
        self._owner = owner
        self._worker = worker
        self._address = address
        self._facts = facts
        self._places = Places(settings, progress=notices, builds=builds)
        self._patience: dict[SystemKey, Patience] = {}
        """By system: after several failed pods in a row, a pod gets one attempt instead of all."""
        self._count = 0

    @contextlib.contextmanager
    def opened(self, key: SystemKey) -> Iterator[Station]:
        """A station on its own machine; both end with the context. Errors as `Places.opened`."""
        station_id, began = self._next_id(), SYSTEM_CLOCK.now()
        folder = self._folder(station_id)
        with self._places.opened(key, folder=folder.path) as place, contextlib.ExitStack() as stack:
            stack.callback(self._owner.closes, place, folder)
            station = stack.enter_context(self._connected(key, place, station_id))
            self._notices.line(f"{station_id}: {key} answers after {SYSTEM_CLOCK.now() - began:.0f} s")
            yield station

    @contextlib.contextmanager
    def turned(self, station: Station, key: SystemKey) -> Iterator[Station]:
        """A station of another system on the machine of this one; the machine stays open."""
        station_id = self._next_id()
        with self._connected(key, station.place, station_id, same_machine_as=station.first) as turned:
            self._notices.line(f"{station_id}: {key}, on the machine of {station.id}")
            yield turned

    def are_of_one_machine(self, one: SystemKey, other: SystemKey) -> bool:
        """Whether one machine has both systems."""
        return one.place == other.place and self._places.are_of_one(one, other)

    @contextlib.contextmanager
    def _connected(
        self, key: SystemKey, place: Place, station_id: str, *, same_machine_as: str = ""
    ) -> Iterator[Station]:
        """Connect to the system's runtime, and learn its versions."""
        folder = self._folder(station_id)
        log = MachineLog(Sink(folder))
        deadline = Deadline.after(FIRST_WORD_SECONDS)
        with (
            attended(place.target) as target,
            place.connect(key.runtime, key.driver, record=log.call, deadline=deadline) as runtime,
            contextlib.ExitStack() as closing,
        ):
            version = runtime.version(deadline=Deadline.after(FIRST_WORD_SECONDS))
            in_use = runtimes_in_use(version, place.runtimes[key.runtime], self._settings)
            if in_use.doubt:
                self._notices.note(in_use.doubt)
            kubelet, kubelets = self._kubelets(place, key, closing)
            node = self._node(
                place,
                runtime,
                target=target,
                log=log,
                in_use=in_use,
                key=key,
                kubelet=kubelet,
            )
            shared = {"same_machine_as": same_machine_as} if same_machine_as else {}
            under_test = {} if kubelets is None else {"kubelets": list(kubelets.versions.values())}
            document = {**self._provenance(station_id, place, node, in_use, key), **shared, **under_test}
            folder.write("machine.json", document)
            try:
                yield Station(
                    id=station_id,
                    key=key,
                    place=place,
                    node=node,
                    log=log,
                    folder=folder,
                    runtimes=[*in_use.shown, *([] if kubelets is None else kubelets.under_test)],
                    first=same_machine_as,
                    kubelets=kubelets,
                )
            finally:
                if told := log.timing.told():
                    folder.write("timing.json", told)
                if log.overhead:
                    folder.write("overhead.json", log.overhead)

    def _kubelets(
        self, place: Place, key: SystemKey, closing: contextlib.ExitStack
    ) -> tuple[KubeletAccess | None, KubeletsUnderTest | None]:
        """The kubelets under test with an API stand-in, until `closing` ends; None if there is none."""
        if self._settings.kubelet_binary is None:
            return None, None
        offer = place.runtimes[key.runtime]
        given = {KUBELET_BINARY: kubelet_version(self._settings.kubelet_binary)}
        if self._settings.kubelet_upgrade is not None:
            given[KUBELET_UPGRADE] = kubelet_version(self._settings.kubelet_upgrade)
        session = closing.enter_context(kubelet_session(place.target))
        access = KubeletAccess(
            session=session,
            binaries={Release.of_kubelet(version).minor: path for path, version in given.items()},
            handler=offer.handlers[key.driver],
            socket=offer.socket,
        )
        return access, KubeletsUnderTest(session=session, versions=given)

    def _node(
        self,
        place: Place,
        runtime: Runtime,
        *,
        target: Target,
        log: MachineLog,
        in_use: RuntimesInUse,
        key: SystemKey,
        kubelet: KubeletAccess | None,
    ) -> NodeUnderTest:
        return node_on(
            place,
            runtime,
            target=target,
            recorder=log,
            driver=key.driver,
            runtimes=in_use.runtimes,
            facts=self._facts(place.facts.node),
            parallel=self._settings.parallel,
            leaves=lambda: self._owner.leaves(place),
            lingers=self._owner.lingers,
            patience=self._patience.setdefault(key, patience_with_pods()),
            enactor=self._enactor if kubelet is None else KUBELET,
            kubelet=kubelet,
        )

    def _folder(self, station_id: str) -> Folder:
        return Folder(self._results / "machines" / station_id)

    def _next_id(self) -> str:
        """A name that is unique in the run."""
        number, self._count = self._count, self._count + 1
        return f"{self._worker}-{number}"

    def _provenance(
        self,
        station_id: str,
        place: Place,
        node: NodeUnderTest,
        in_use: RuntimesInUse,
        key: SystemKey,
    ) -> dict[str, Any]:
        """The machine's part of a bundle, with its host if that is not the run's."""
        elsewhere = {"host": {"address": self._address, "name": platform.node(), **host()}}
        return {
            **place.provenance,
            "id": station_id,
            "profile": key.profile,
            "topology": key.topology,
            "runtime": key.runtime,
            "driver": key.driver,
            "kernel": node.facts.kernel,
            "runtimes": in_use.shown,
            "cri": in_use.cri.api_version if in_use.cri else "",
            "facts": node.facts,
            **(elsewhere if self._address else {}),
        }
