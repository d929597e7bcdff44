"""An in-memory node: fake target, fake runtime, and an enforcement agent that writes into the fake cgroups."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from memqos.catalog.kubelets import KubeletCase
from memqos.cgroupfs.hierarchy import Hierarchy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Enactor, Patience
from memqos.enactor.kubelet_stand_in import KubeletStandIn
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.engine.releases.release import Variant
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.errors import RuntimeCallError
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts, NumaNode
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity
from memqos.model.reading import Reading
from memqos.node import NodeUnderTest
from memqos.node.occupancy import Cleanup
from memqos.node.pods.recorder import Weight
from memqos.place.fake import FakeAgent, FakeSampler
from memqos.probe.facts import TargetFacts
from memqos.probe.sampler import Look, Spoken
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerStatus, SandboxHandle, SandboxSpec
from memqos.runtime.fake import FakeRuntime
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FakeCgroups
from memqos.target.fake import FakeAnswer, FakeTarget

ZONES = tuple(NumaNode(id=number, memory=1 << 30, cpus=(number,)) for number in (0, 1))
FAR = tuple(NumaNode(id=number, memory=1 << 30, cpus=cpus) for number, cpus in ((0, (0, 1)), (1, ())))
FOUR = tuple(
    NumaNode(id=number, memory=512 << 20, cpus=(number,), distances=distances)
    for number, distances in enumerate([(10, 12, 28, 28), (12, 10, 28, 28), (28, 28, 10, 12), (28, 28, 12, 10)])
)
FACTS = NodeFacts(memory=2 << 30, swap=512 << 20, cpus=2, numa_nodes=ZONES, hugepage_sizes=(), kernel="6.12")


class Runtime(FakeRuntime):
    """A fake runtime that counts sandboxes, ends init containers, and fails for the pods in `broken` and `hanging`."""

    def __init__(self, cgroups: FakeCgroups, runtimes: Runtimes) -> None:
        super().__init__(cgroups, runtimes=runtimes)
        self.sandboxes: list[str] = []
        self.handles: dict[str, ContainerHandle] = {}
        self.init_exit_code = 0
        self.broken: set[str] = set()
        self.asked: list[str] = []
        self.hanging: set[str] = set()

    def run_sandbox(self, spec: SandboxSpec, *, deadline: Deadline) -> SandboxHandle:
        self.asked.append(spec.name)
        if spec.name in self.hanging:
            raise RuntimeCallError("the runtime hangs.")
        if spec.name in self.broken:
            raise RuntimeCallError(f"no sandbox for {spec.name}.")
        self.sandboxes.append(spec.name)
        return super().run_sandbox(spec, deadline=deadline)

    def create(self, sandbox: SandboxHandle, spec: ContainerSpec, *, deadline: Deadline) -> ContainerHandle:
        handle = super().create(sandbox, spec, deadline=deadline)
        self.handles[handle.id] = handle
        return handle

    def status(self, container: ContainerHandle, *, deadline: Deadline) -> ContainerStatus:
        seen = super().status(container, deadline=deadline)
        if container.name == "init" and seen.exit_code is None:
            self.finish(container, exit_code=self.init_exit_code)
        return seen


class Log:
    """Keeps the node's records."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.requested: list[PlannedCgroup] = []
        self.readings: list[Reading] = []
        self.looks: list[Look] = []
        self.spoken_to: list[Spoken] = []

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        self.plans.append(plan)
        self.requested += [requested] if requested is not None else []

    def reading(self, reading: Reading) -> None:
        self.readings.append(reading)

    def weight(self, weight: Weight) -> None:
        pass

    def look(self, look: Look) -> None:
        self.looks.append(look)

    def spoken(self, spoken: Spoken) -> None:
        self.spoken_to.append(spoken)


class Bench:
    """The node with everything behind it that a test may inspect."""

    def __init__(
        self,
        *,
        runtimes: Runtimes = TRIXIE,
        hierarchy: Hierarchy = FAKE_HIERARCHY,
        patience: Patience | None = None,
        disposable: bool = False,
        **facts: Any,
    ) -> None:
        zones = facts.get("node", FACTS).numa_nodes
        self.cgroups = FakeCgroups(hierarchy=hierarchy, numa_nodes=f"0-{zones[-1].id}")
        self.runtime = Runtime(self.cgroups, runtimes)
        self.log = Log()
        self.killed: list[str] = []
        self.agent = FakeAgent(self.cgroups)
        self.target = FakeTarget(
            mounts=self.cgroups.mounts,
            commands={
                **self.cgroups.commands(),
                **self.agent.commands(),
                ("sh", "-c"): self.kill,
                **dict.fromkeys((("sync",), ("sh", "-ec"), ("rm", "-rf")), lambda *_: (0, b"", b"")),
            },
        )
        fields = {
            "node": dataclasses.replace(FACTS, cgroup_version=hierarchy.version),
            "hierarchy": self.cgroups.hierarchy,
            "controllers": frozenset({"memory"}),
            "pressure": True,
        }
        self.facts = TargetFacts(**{**fields, **facts})
        self.enactor = KubeletStandIn(
            runtime=self.runtime,
            tree=CgroupTree(self.target, self.cgroups.hierarchy),
            layout=runtimes.layout(CgroupDriver.SYSTEMD),
            patience=patience,
        )
        self.sampler = FakeSampler(self.cgroups, self.target)
        self.runtimes, self.disposable = runtimes, disposable
        self.node = self.node_with(self.enactor)

    def node_with(self, enactor: Enactor) -> NodeUnderTest:
        """The node of this machine and runtime with another enactor."""
        return NodeUnderTest(
            target=self.target,
            runtime=self.runtime,
            enactor=enactor,
            sampler=self.sampler,
            facts=self.facts,
            recorder=self.log,
            driver=CgroupDriver.SYSTEMD,
            runtimes=self.runtimes,
            cleanup=Cleanup(disposable=self.disposable),
        )

    @property
    def planned_cgroups(self) -> list[str]:
        """The cgroups below kubepods, without the runtimes' own."""
        return [text for path in self.cgroups.list("/sys/fs/cgroup") or () if (text := path).startswith("kubepods")]

    def kill(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        for file in argv[4:]:
            container_id = file.split("/")[-2].removeprefix("cri-containerd-").removesuffix(".scope")
            self.killed.append(container_id)
            handle = self.runtime.handles.get(container_id)
            if handle is None:
                # A sandbox, which has no process here.
                continue
            if super(Runtime, self.runtime).status(handle, deadline=Deadline.after(1)).exit_code is None:
                self.runtime.finish(handle, exit_code=137)
        return 0, b"", b""


def pod(name: str, request: str = "32Mi", limit: str = "64Mi", *, init: bool = False) -> Pod:
    def container(kind: ContainerKind) -> Container:
        return Container(
            name=kind.value,
            kind=kind,
            image="memqos.local/memload:1",
            args=("hold",),
            resources=Resources(
                requests={"memory": Quantity.parse(request)} if request else {},
                limits={"memory": Quantity.parse(limit)} if limit else {},
            ),
        )

    return Pod(
        name=name,
        uid=f"uid-{name}",
        containers=(container(ContainerKind.APP),),
        init_containers=(container(ContainerKind.INIT),) if init else (),
    )


def kubelet(release: str = "1.27", **settings: Any) -> KubeletCase:
    fields = {"feature_gates": {"MemoryQoS": True}, "fail_swap_on": False, "throttling_factor": Fraction("0.9")}
    return KubeletCase(
        id=f"v{release}",
        purpose="a test",
        release=release,
        variant=Variant.SHIPPED,
        settings=KubeletSettings(**{**fields, **settings}),
    )
