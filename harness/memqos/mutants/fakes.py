"""Mutants in memory: each gets a new fake runtime, or a new enactor over it, with its fault."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterator
from functools import cached_property

from memqos.claims import Claim
from memqos.engine.translate.versions import BUNDLES, TRIXIE, RuntimeName, Runtimes, traits_of
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.mutants import cri_server, in_memory
from memqos.mutants.cri_server import WrongServer
from memqos.mutants.rigs import Catalogue, PlanUnderMutant, RequestsUnderMutant, unmarked
from memqos.mutants.table import Mutant, PlanFault
from memqos.mutants.trial import SystemUnderMutant
from memqos.mutants.wrong_enactor import Switch
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.node.node_under_test import NodeUnderTest
from memqos.place.fake import FakePlace

__all__ = ["FakeRig", "imitated_traits"]


def imitated_traits(runtime: str) -> Runtimes:
    """The traits that the fake imitates for a runtime's name: "containerd+crun", "oci:runc".

    containerd passes limits of huge pages on, as the machines' containerd is configured to.
    """
    oci = TRIXIE.oci if runtime.endswith("runc") else traits_of(RuntimeName.CRUN, "1.21")
    return Runtimes(cri=BUNDLES if runtime.startswith("oci:") else TRIXIE.cri, oci=oci, hugetlb=True)


class FakeRig:
    """A rig in memory. runtime: the name of the imitated_traits runtime."""

    lanes = 1

    def __init__(self, runtime: str, driver: CgroupDriver, catalogue: Catalogue) -> None:
        self.name = f"fake of {runtime}"
        self._runtime, self._driver, self._catalogue = runtime, driver, catalogue
        self._runtimes = imitated_traits(runtime)
        self._switch = Switch(catalogue.kubelets)
        self.case_choice = catalogue.case_choice(self._runtimes, patient=False)
        self._plain, _ = self._node(None)

    def why_not(self, mutant: Mutant) -> str:
        """Why this mutant cannot run on the fakes or this runtime; "" if it can."""
        if mutant.runtimes and not any(fnmatch.fnmatch(self._runtime, one) for one in mutant.runtimes):
            return f"it is only for {' and '.join(mutant.runtimes)}"
        if mutant.driver not in {"", str(self._driver)}:
            return f"it is only for the {mutant.driver} driver"
        if not mutant.fake or mutant.machine is not None:
            return "the fakes do not have this fault"
        if mutant.cri is not None and self._runtime.startswith("oci:"):
            return "no CRI server is above the runtime"
        if mutant.oci is None:
            return ""
        missing = [one.file for one in mutant.oci.write if one.file not in self._files]
        return f"the fakes have no {missing[0]}" if missing else in_memory.why_not(mutant.oci)

    @cached_property
    def _files(self) -> frozenset[str]:
        """The control files of a cgroup below the root."""
        cgroups, one = FakePlace(runtimes=self._runtimes).cgroups, CgroupPath.parse("/system.slice")
        cgroups.make(one)
        return frozenset(cgroups.snapshot()[one])

    def lacks(self, claim: Claim) -> str:
        """As `Rig.lacks` of the node."""
        return next((why for need in claim.needs if (why := self._plain.why_not(need))), "")

    def is_exclusive(self, mutant: Mutant) -> bool:  # noqa: ARG002 - each has a node of its own
        """None is."""
        return False

    @contextlib.contextmanager
    def under(self, mutant: Mutant | None, lane: int) -> Iterator[SystemUnderMutant]:  # noqa: ARG002
        """A node in memory, made for the mutant."""
        own_pod = mutant is not None and mutant.own_pod
        node, plant = self._node(mutant, at_once=own_pod)
        if mutant is not None and mutant.plan is not None:
            self._switch.fault = mutant.plan
            try:
                yield PlanUnderMutant(node, mutant.plan, self._catalogue, unmarked)
            finally:
                self._switch.fault = PlanFault()
            return
        pod, kubelet = self._catalogue.pod("best-effort"), self._catalogue.kubelet("v1.36-none")
        with node.asking_each([pod], kubelet) as [asking]:
            plant()
            yield RequestsUnderMutant(asking, self._catalogue, unmarked)

    def _node(self, mutant: Mutant | None, *, at_once: bool = True) -> tuple[NodeUnderTest, Callable[[], None]]:
        """A new node and the switch for its fault; at_once: set the fault right away."""
        place = FakePlace(runtimes=self._runtimes)
        runtime = place.runtime(self._driver)

        def plant() -> None:
            if mutant is not None and mutant.oci is not None:
                in_memory.plant_runtime(runtime, place.cgroups, mutant.oci)
            elif mutant is not None and mutant.cri is not None:
                server.set_fault(mutant.cri)

        server = WrongServer()
        if mutant is not None and mutant.cri is not None:
            cri_server.plant_server(runtime, server)

        if at_once:
            plant()
        node = node_on(
            place,
            runtime,
            recorder=NoRecorder(),
            driver=self._driver,
            runtimes=self._runtimes,
            enactor=self._switch.enactor,
        )
        return node, plant if not at_once else lambda: None
