"""The contract of the runtime port, for the fakes. tests/vm checks the adapters in a machine."""

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.engine.translate.versions import Traits, traits_of
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime.base import ContainerHandle, ContainerSpec, ContainerStatus, SandboxSpec, Traces
from memqos.runtime.contract import RuntimeCase, check_runtime_contract
from memqos.runtime.fake import FakeDockerRuntime, FakeOciRuntime, FakePodmanRuntime, FakeRuntime
from memqos.runtime.fake_cgroups import FakeCgroups

POD = CgroupPath.parse("/kubepods.slice/kubepods-pod1.slice")
SANDBOX = SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent=str(POD), log_directory="/l")


@contextlib.contextmanager
def case(kind: type[FakeRuntime], driver: CgroupDriver) -> Iterator[RuntimeCase]:
    cgroups = FakeCgroups()
    cgroups.make(POD)
    leaf = "cri-containerd-{}.scope" if driver is CgroupDriver.SYSTEMD else "{}"

    def read(container: ContainerHandle, knob: Knob) -> str:
        return cgroups.text(POD.child(leaf.format(container.id)), knob).strip()

    yield RuntimeCase(
        runtime=kind(cgroups, driver=driver),
        sandbox=SANDBOX,
        container=ContainerSpec(name="a", image="memqos.local/memload:1", args=("hold",)),
        read=read,
    )


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_the_fake(driver: CgroupDriver) -> None:
    check_runtime_contract(lambda: case(FakeRuntime, driver))


@contextlib.contextmanager
def docker_case(driver: CgroupDriver) -> Iterator[RuntimeCase]:
    cgroups = FakeCgroups()
    cgroups.make(POD)
    runtimes = Runtimes(cri=traits_of("docker", "26.1.5"), oci=TRIXIE.oci)
    layout = runtimes.layout(driver)
    yield RuntimeCase(
        runtime=FakeDockerRuntime(cgroups, driver=driver, runtimes=runtimes),
        sandbox=SANDBOX,
        container=ContainerSpec(name="a", image="memqos.local/memload:1", args=("hold",)),
        read=lambda container, knob: cgroups.text(layout.container(POD, container.id), knob).strip(),
    )


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_the_fake_docker(driver: CgroupDriver) -> None:
    check_runtime_contract(lambda: docker_case(driver))


@contextlib.contextmanager
def podman_case(driver: CgroupDriver) -> Iterator[RuntimeCase]:
    cgroups = FakeCgroups()
    cgroups.make(POD)
    runtimes = Runtimes(cri=traits_of("podman", "5.4.2"), oci=traits_of("crun", "1.21"))
    layout = runtimes.layout(driver)
    yield RuntimeCase(
        runtime=FakePodmanRuntime(cgroups, driver=driver, runtimes=runtimes),
        sandbox=SANDBOX,
        container=ContainerSpec(name="a", image="memqos.local/memload:1", args=("hold",)),
        read=lambda container, knob: cgroups.text(layout.container(POD, container.id), knob).strip(),
    )


@pytest.mark.parametrize("driver", list(CgroupDriver))
def test_the_fake_podman(driver: CgroupDriver) -> None:
    check_runtime_contract(lambda: podman_case(driver))


@contextlib.contextmanager
def bundle_case(driver: CgroupDriver, oci: Traits) -> Iterator[RuntimeCase]:
    cgroups = FakeCgroups()
    cgroups.make(POD)
    runtimes = Runtimes(cri=BUNDLES, oci=oci)
    layout = runtimes.layout(driver)
    yield RuntimeCase(
        runtime=FakeOciRuntime(cgroups, driver=driver, runtimes=runtimes),
        sandbox=SANDBOX,
        container=ContainerSpec(name="a", image="memqos.local/memload:1", args=("hold",)),
        read=lambda container, knob: cgroups.text(layout.container(POD, container.id), knob).strip(),
    )


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("oci", [TRIXIE.oci, traits_of("crun", "1.28")], ids=str)
def test_the_fake_of_bundles(driver: CgroupDriver, oci: Traits) -> None:
    check_runtime_contract(lambda: bundle_case(driver, oci))


class DropsUnified(FakeRuntime):
    def create(self, sandbox, spec, *, deadline):  # type: ignore[no-untyped-def]
        resources = dataclasses.replace(spec.resources, unified={})
        return super().create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)


class ForgetsOnUpdate(FakeRuntime):
    def update(self, container, resources, *, deadline):  # type: ignore[no-untyped-def]
        everything = ContainerResources(unified={"memory.min": "0", **resources.unified})
        super().update(container, resources, deadline=deadline)
        super().update(container, everything, deadline=deadline)


class TellsAnExitCodeTooEarly(FakeRuntime):
    def status(self, container, *, deadline) -> ContainerStatus:  # type: ignore[no-untyped-def]
        return dataclasses.replace(super().status(container, deadline=deadline), exit_code=0)


class KeepsTheFirstSpecification(FakeRuntime):
    def update(self, container, resources, *, deadline):  # type: ignore[no-untyped-def]
        before = self.specification_of(container)
        super().update(container, resources, deadline=deadline)
        self.remember(container, before)


class NamesPlacesByHalf(FakeRuntime):
    def traces(self, container, *, deadline) -> Traces:  # type: ignore[no-untyped-def]
        return dataclasses.replace(super().traces(container, deadline=deadline), config=("config.json",))


class LeavesContainers(FakeRuntime):
    def remove_sandbox(self, sandbox, *, deadline) -> None:  # type: ignore[no-untyped-def]
        pass


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (DropsUnified, "resources reach the container's cgroup"),
        (ForgetsOnUpdate, "resources reach the container's cgroup"),
        (TellsAnExitCodeTooEarly, "no exit code"),
        (KeepsTheFirstSpecification, "the stored specification"),
        (NamesPlacesByHalf, "traces are absolute paths"),
        (LeavesContainers, "whose sandbox was removed"),
    ],
)
def test_a_broken_adapter_gets_the_promise_it_breaks(kind: type[FakeRuntime], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_runtime_contract(lambda: case(kind, CgroupDriver.SYSTEMD))
