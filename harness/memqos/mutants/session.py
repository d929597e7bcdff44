"""Mutants on a machine: boots one with programs that can have faults, and tries its runtimes in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memqos.claims import Claim
from memqos.clock import Deadline
from memqos.config import table
from memqos.config.runtime_files import RuntimeFile
from memqos.config.settings import Settings
from memqos.config.systems import SystemKey, systems_of
from memqos.engine.answer.finding import Finding
from memqos.errors import MachineryError, UsageError
from memqos.known import known_or_not
from memqos.laboratory.evidence import Folder
from memqos.laboratory.station import Station, Stations
from memqos.model.path import CgroupPath
from memqos.mutants.cri_server import WrongServer, open_proxy
from memqos.mutants.programs import oci_runtime
from memqos.mutants.rigs import BehaviourUnderMutant, Catalogue, Known, PlanUnderMutant, RequestsUnderMutant
from memqos.mutants.table import MachineFault, Mutant, OciFault, PlanFault
from memqos.mutants.trial import Rig, SystemUnderMutant
from memqos.mutants.wrong_enactor import Switch
from memqos.node.connection import node_on
from memqos.node.node_under_test import NodeUnderTest
from memqos.node.pods.foreign_writes import another
from memqos.node.requests.container_requests import Requests
from memqos.ownership import temporary_folder
from memqos.place.base import Place
from memqos.place.opening import check_host, check_places, prepare_places
from memqos.runtime import cri
from memqos.target.base import Target, checked
from memqos.vm.host.progress import Progress

__all__ = ["DEFAULT_RUNTIMES", "MachineRig", "need_runtimes_of_images", "open_rigs"]

DEFAULT_RUNTIMES = ("oci:runc", "containerd+runc")
"""The default runtimes for mutants, by kind: without a daemon where possible, which takes a third of the time."""
_LANES = 2
_SECONDS = 60.0
_BROAD = frozenset({"class", "node"})
"""The levels at which a write affects more than one pod."""

_SAVE = r"""
for file do [ -e "$file" ] && printf '%s\t%s\n' "$file" "$(cat "$file")"; done; true
"""
_RESTORE = r"""
while IFS='	' read -r file text; do
    [ -e "$file" ] && [ "$(cat "$file")" != "$text" ] && printf '%s' "$text" >"$file"
done; true
"""
_PROGRAMS = "/var/lib/memqos-mutants"
"""The folder of programs on the machine; /run may be mounted noexec."""
_LOOP = "memqos-mutant"
"""The transient unit of a program that writes in addition to the runtime."""


@contextlib.contextmanager
def open_rigs(
    settings: Settings, runtimes: Sequence[str], catalogue: Catalogue, *, progress: Progress
) -> Iterator[tuple[str, Iterator[contextlib.AbstractContextManager[Rig]]]]:
    """Boot a machine with these runtimes; its name, and a rig for each runtime, opened one by one.

    Raises UsageError for several profiles or drivers, for an existing machine, and for runtimes over several OCI
    runtimes; otherwise as `memqos.laboratory.bench.lab`.
    """
    if settings.target or settings.image:
        raise UsageError(
            "mutants replace programs of the machine, so it must be one that memqos boots from a profile.",
            where=settings.origins["target" if settings.target else "image"],
            next_step="Let memqos boot one: --profile.",
        )
    need_runtimes_of_images(settings, runtimes)
    # What lanes still do after an interrupt fails once the machine has ended. They end before their folder is removed.
    with (
        temporary_folder("memqos-mutants-") as folder,
        ThreadPoolExecutor(max_workers=_LANES, thread_name_prefix="mutant") as pool,
        contextlib.ExitStack() as stack,
    ):
        program = folder / "wrong-runtime"
        shutil.copyfile(str(oci_runtime.__file__), program)
        program.chmod(0o755)
        chosen = dataclasses.replace(settings, runtime=tuple(runtimes), runtime_binary=(RuntimeFile("", program),))
        builds = check_places(chosen)
        check_host(chosen)
        systems = systems_of(chosen)
        if len({(one.place, one.driver) for one in systems}) > 1:
            raise UsageError("mutants are tried on one profile and one driver at a time.", next_step="Name one.")
        prepare_places(dataclasses.replace(chosen, runtime_binary=()), progress=progress)
        switch, owner = Switch(catalogue.kubelets), _Disposal()
        stations = Stations(
            chosen,
            results=folder,
            notices=_ProgressNotices(progress),
            owner=owner,
            builds=builds,
            enactor=switch.enactor,
        )
        progress.start("boot a machine")
        station = stack.enter_context(stations.opened(systems[0]))
        progress.done("boot a machine")

        opening = _Opening(stations, station, switch, catalogue, settings, owner, pool)
        named = ", ".join(runtimes)
        name = f"{systems[0].profile}/{systems[0].topology}, {named}, {systems[0].driver} driver"
        yield name, (opening.rig(system) for system in systems)


def need_runtimes_of_images(settings: Settings, runtimes: Sequence[str]) -> None:
    """Raise UsageError for an OCI runtime that is not in memqos's images, or that a file would replace."""
    origin = settings.origins["runtime"]
    check_places(dataclasses.replace(settings, runtime=tuple(runtimes)))
    files = {file.name: f"'{file.path}'" for file in settings.runtime_binary if file.option == origin}
    for one in runtimes:
        name = table.oci_runtime(one)
        if name in files or not (one in table.RUNTIMES or one.startswith(table.BY_HANDLER)):
            raise UsageError(
                f"{files.get(name, one)} is not an OCI runtime of memqos's images, and mutants replace those alone.",
                where=origin,
                next_step="Name one of those, such as oci:runc or containerd+crun.",
            )


@dataclass(frozen=True)
class _Opening:
    """Makes the rigs of one machine. first: the machine's first station. pool: the threads of all lanes."""

    stations: Stations
    first: Station
    switch: Switch
    catalogue: Catalogue
    settings: Settings
    owner: _Disposal
    pool: Executor

    @contextlib.contextmanager
    def rig(self, system: SystemKey) -> Iterator[Rig]:
        """The rig of one runtime of the machine."""
        with contextlib.ExitStack() as stack:
            same = system == self.first.key
            station = self.first if same else stack.enter_context(self.stations.turned(self.first, system))
            server, node = WrongServer(), station.node
            if not system.runtime.startswith("oci:"):
                node = stack.enter_context(_behind(station, server, self))
            rig = MachineRig(self, station, node, server)
            try:
                yield rig
                rig.close()
            except BaseException:
                self.owner.ends = True
                rig.give_up()
                raise


@contextlib.contextmanager
def _behind(station: Station, server: WrongServer, opening: _Opening) -> Iterator[NodeUnderTest]:
    """The station's node behind the CRI proxy that adds faults."""
    place, key = station.place, station.key
    offer = place.runtimes[key.runtime]
    case = next(iter(opening.switch.kubelets.values()))
    with (
        place.target.forward(offer.socket) as socket,
        open_proxy(socket, server) as wrong,
        cri.connect(
            wrong,
            name=key.runtime,
            handler=offer.handlers[key.driver],
            record=station.log.call,
            deadline=Deadline.after(_SECONDS),
        ) as runtime,
    ):
        yield node_on(
            place,
            runtime,
            target=station.node.target,
            recorder=station.log,
            driver=key.driver,
            runtimes=station.node.kubelet(case).runtimes,
            leaves=lambda: opening.owner.leaves(place),
            enactor=opening.switch.enactor,
        )


class MachineRig:
    """A runtime of a machine that gets one mutant's fault after another; several mutants run at a time, in lanes.

    askers: for each lane, the requests in its running pod; empty without running pods.
    """

    def __init__(self, opening: _Opening, station: Station, node: NodeUnderTest, server: WrongServer) -> None:
        self.name = station.key.runtime
        self.lanes, self.pool = _LANES, opening.pool
        self._station, self._node, self._server, self._switch = station, node, server, opening.switch
        self._catalogue, self._settings = opening.catalogue, opening.settings
        self._kubelet = self._catalogue.kubelet("v1.36-none")
        self.case_choice = self._catalogue.case_choice(node.kubelet(self._kubelet).runtimes)
        self._pods = contextlib.ExitStack()
        self.askers: list[Requests] = []
        self._lock = threading.Lock()
        self._in_use = 0
        self._failed = False
        self._free = threading.Condition(self._lock)

    # ---- possible faults

    def why_not(self, mutant: Mutant) -> str:
        """Why this mutant cannot run on this runtime or driver; "" if it can."""
        if mutant.runtimes and not any(fnmatch.fnmatch(self.name, one) for one in mutant.runtimes):
            return f"it is only for {' and '.join(mutant.runtimes)}"
        if mutant.driver not in {"", str(self._station.key.driver)}:
            return f"it is only for the {mutant.driver} driver"
        if mutant.cri is not None and self.name.startswith("oci:"):
            return "no CRI server is above the runtime"
        missing = [one.file for one in mutant.oci.write if self._is_missing(one.file)] if mutant.oci is not None else []
        return f"the kernel has no {missing[0]}" if missing else ""

    def _is_missing(self, file: str) -> bool:
        """Whether the kernel lacks this file although it has others of the same controller."""
        controller = file.partition(".")[0]
        siblings = [name for name in self.files if name.startswith(f"{controller}.")]
        return bool(siblings) and file not in siblings

    @cached_property
    def files(self) -> Sequence[str]:
        """The interface files of one of the machine's own cgroups."""
        folder = self._node.tree.hierarchy.folder(CgroupPath.parse("/system.slice"))
        return self._target.list(folder, deadline=_soon()) or ()

    def lacks(self, claim: Claim) -> str:
        """As `Rig.lacks` of the node."""
        return next((why for need in claim.needs if (why := self._node.why_not(need))), "")

    def is_exclusive(self, mutant: Mutant) -> bool:
        """Whether the mutant writes above pods, needs a new pod, or affects the whole node."""
        if mutant.oci is None or mutant.needs_new_pod or mutant.oci.sandbox:
            return True
        broad = any(one.at in _BROAD for one in mutant.oci.write)
        whole = any(
            claim.startswith(("lifecycle/leaves", "lifecycle/daemon", "lifecycle/runtime")) for claim in mutant.claims
        )
        return broad or whole or bool(mutant.oci.unit)

    # ---- applying faults

    @contextlib.contextmanager
    def under(self, mutant: Mutant | None, lane: int) -> Iterator[SystemUnderMutant]:
        """The machine under a mutant; see `Rig`."""
        self._station.place.check_alive()
        if mutant is not None and (
            mutant.plan is not None or mutant.needs_new_pod or self._catalogue.is_behaviour(mutant)
        ):
            self.close()
            with self._apart(mutant) as tried:
                yield tried
            return
        # What earlier requests read, or left standing, is of another mutant or of another lane.
        requests = dataclasses.replace(self._taken(lane), baseline={}, standing={})
        try:
            with self._wrong(mutant, requests):
                yield RequestsUnderMutant(requests, self._catalogue, self._known())
        except MachineryError:
            self._failed = True
            raise
        finally:
            self._given_back()

    def _wrong(self, mutant: Mutant | None, requests: Requests) -> contextlib.AbstractContextManager[None]:
        """Apply the mutant's fault to a pod's containers until the context ends."""
        if mutant is None:
            return contextlib.nullcontext()
        if mutant.oci is not None:
            return self._wrong_runtime(mutant, mutant.oci, requests.pod.planned.cgroup.path)
        if mutant.machine is not None:
            return self._wrong_machine(mutant.machine, requests.pod.planned.cgroup.path)
        return self._wrong_server(mutant)

    @contextlib.contextmanager
    def _wrong_server(self, mutant: Mutant) -> Iterator[None]:
        self._server.set_fault(mutant.cri)
        try:
            yield
        finally:
            self._server.set_fault(None)

    @contextlib.contextmanager
    def _wrong_runtime(self, mutant: Mutant, fault: OciFault, pod: CgroupPath | None) -> Iterator[None]:
        """Give the OCI runtime a fault for one or all pods; at the end restore the files outside their containers."""
        name = "any" if pod is None else pod.name
        folder, document = oci_runtime.FOLDER, fault.document()
        if fault.program:
            program = f"{_PROGRAMS}/{mutant.name}"
            data = (Path(mutant.file).parent / fault.program).read_bytes()
            self._run("mkdir", "-p", _PROGRAMS)
            self._target.write(program, data, deadline=_soon())
            self._run("chmod", "755", program)
            document["program"] = program
        held = self._beside(fault, pod)
        counts = f"{folder}/containers-{'*' if pod is None else name} {folder}/deletes-{'*' if pod is None else name}"
        begins = f"mkdir -p {folder}/pods && rm -f {counts} && cat >{folder}/pods/{name}"
        self._run("sh", "-c", begins, stdin=json.dumps(document).encode())
        try:
            yield
        finally:
            self._run("sh", "-c", f"rm -f {folder}/pods/{name}{_RESTORE if held else ''}", stdin=held)

    def _beside(self, fault: OciFault, pod: CgroupPath | None) -> bytes:
        """The current texts of the files that a fault writes outside its container; empty if it writes none."""
        names = sorted({one.file for one in fault.write if one.at in {"siblings", "pod", *_BROAD}})
        if not names or pod is None:
            return b""
        hierarchy = self._node.tree.hierarchy
        folders = [hierarchy.folder(path) for path in (pod, *pod.ancestors[:2])]
        files = [f"{folder}/{name}" for folder in folders for name in names]
        files += [f"{folders[0]}/{below}/{name}" for name in names for below in ("*", "*/container")]
        script = f"set -- {' '.join(files)}\n{_SAVE}"
        return checked(self._target.run(["sh", "-c", script], deadline=_soon()), where=self._target.address).stdout

    @contextlib.contextmanager
    def _wrong_machine(self, fault: MachineFault, pod: CgroupPath) -> Iterator[None]:
        hierarchy = self._node.tree.hierarchy
        names = {"POD": pod, "CLASS": pod.parent, "NODE": pod.parent.parent}
        given = [f"{name}={hierarchy.folder(path)}" for name, path in names.items()]
        given.append(f"ROOT={hierarchy.folder(CgroupPath(()))}")
        if fault.before:
            self._run("env", *given, "sh", "-c", fault.before)
        if fault.loop:
            script = f"while :; do {fault.loop}; sleep 0.2; done 2>/dev/null"
            settings = [f"--setenv={one}" for one in given]
            self._run("systemd-run", f"--unit={_LOOP}", "--collect", *settings, "sh", "-c", script)
        try:
            yield
        finally:
            if fault.loop:
                self._run("systemctl", "stop", f"{_LOOP}.service")
            if fault.after:
                self._run("env", *given, "sh", "-c", fault.after)

    def _apart(self, mutant: Mutant) -> contextlib.AbstractContextManager[SystemUnderMutant]:
        """The system with the mutant on a node without running pods."""
        if mutant.plan is not None:
            return self._planned(mutant.plan)
        return self._own_pod(mutant) if mutant.machine is None else self._meddled(mutant.machine)

    @contextlib.contextmanager
    def _meddled(self, fault: MachineFault) -> Iterator[SystemUnderMutant]:
        with self._wrong_machine(fault, self._some_pod):
            yield BehaviourUnderMutant(self._node, self._catalogue, self._known())

    @property
    def _some_pod(self) -> CgroupPath:
        """The cgroup path of a BestEffort pod, for its parents."""
        pod = self._catalogue.pod("best-effort")
        return self._node.plan([pod], self._kubelet).pod(pod.uid).cgroup.path

    @contextlib.contextmanager
    def _own_pod(self, mutant: Mutant) -> Iterator[SystemUnderMutant]:
        """The system with a pod that starts after the fault was applied."""
        wrong = self._wrong_server(mutant) if mutant.oci is None else self._wrong_runtime(mutant, mutant.oci, None)
        with (
            wrong,
            self._node.requests_of_each([self._catalogue.pod("best-effort")], self._kubelet) as [requests],
        ):
            yield RequestsUnderMutant(requests, self._catalogue, self._known())

    @contextlib.contextmanager
    def _planned(self, fault: PlanFault) -> Iterator[SystemUnderMutant]:
        self._switch.fault = fault
        try:
            yield PlanUnderMutant(self._node, fault, self._catalogue, self._known(), self._switch)
        finally:
            self._switch.fault = PlanFault()

    def _known(self) -> Known:
        lists = self._settings.known

        def known(finding: Finding, claim: str) -> Finding:
            return known_or_not(finding, claim, self._station, lists)

        return known

    # ---- pods that are used for one mutant after another

    def _taken(self, lane: int) -> Requests:
        """The requests in a lane's pod; pods with a failure are replaced as soon as no lane is in use."""
        with self._free:
            if self._failed or not self.askers:
                self._free.wait_for(lambda: self._in_use == 0)
                if self._failed or not self.askers:
                    self._made_anew()
            self._in_use += 1
            return self.askers[lane]

    def _given_back(self) -> None:
        with self._free:
            self._in_use -= 1
            self._free.notify_all()

    def _made_anew(self) -> None:
        self._removed()
        self._failed = False
        pod = self._catalogue.pod("best-effort")
        pods = [another(pod, f"mutants-{number}") for number in range(self.lanes)]
        stack = contextlib.ExitStack()
        self.askers = [*stack.enter_context(self._node.requests_of_each(pods, self._kubelet))]
        self._pods = stack

    def close(self) -> None:
        """Remove the running pods."""
        with self._free:
            self._free.wait_for(lambda: self._in_use == 0)
            self._removed()

    def give_up(self) -> None:
        """Leave the pods to the machine, which ends; does not wait for calls in progress."""
        self._removed()

    def _removed(self) -> None:
        self.askers = []
        pods, self._pods = self._pods, contextlib.ExitStack()
        with contextlib.suppress(MachineryError):
            # Removal may fail because of what a mutant left; the machine is deleted anyway.
            pods.close()

    @property
    def _target(self) -> Target:
        return self._node.target

    def _run(self, *argv: str, stdin: bytes = b"") -> None:
        checked(self._target.run(list(argv), deadline=_soon(), stdin=stdin), where=self._target.address)


def _soon() -> Deadline:
    return Deadline.after(_SECONDS)


class _Disposal:
    """Removes pods between runtimes, and leaves them on an abandoned machine. ends: whether it is abandoned."""

    def __init__(self) -> None:
        self.ends = False

    def leaves(self, place: Place) -> bool:
        """Whether pods stay, because the machine is abandoned or does not answer."""
        return self.ends or not place.condition.is_usable

    def lingers(self) -> bool:
        """They do not."""
        return False

    def closes(self, place: Place, folder: Folder) -> None:
        """No machine is kept."""


class _ProgressNotices:
    """A station's notices as progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, name: str) -> None:
        """A step begins."""
        self._progress.start(name)

    def done(self, name: str) -> None:
        """It ended."""
        self._progress.done(name)

    def note(self, text: str) -> None:
        """Passed on."""
        self._progress.note(text)

    def line(self, text: str) -> None:
        """Report a step's end as a note."""
        self._progress.note(text)
