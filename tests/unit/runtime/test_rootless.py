"""The adapter of OCI runtimes as an ordinary user runs them: what is in the bundle, and where its files are."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from memqos.cgroupfs.hierarchy import CgroupMount, Unified
from memqos.clock import Deadline
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.runtime.base import Capability, ContainerHandle, ContainerSpec, SandboxSpec
from memqos.runtime.delegation import Delegated, Delegation, UserFolders
from memqos.runtime.oci import OciRuntime
from memqos.target.fake import FakeAnswer, FakeTarget

MANAGER = CgroupPath.parse("/user.slice/user-1000.slice/user@1000.service")
UNIT = CgroupPath((*MANAGER.parts, "app.slice", "memqos-delegated.service"))
CGROUPS = Unified(CgroupMount(folder="/sys/fs/cgroup", options=frozenset({"memory_recursiveprot"})))
SPEC = SandboxSpec(
    name="p", namespace="n", uid="1", cgroup_parent="/kubepods/pod1", log_directory="/var/log/pods/n_p_1"
)


class Machine:
    """A target whose runtime creates every container; `asked` are the commands with their standard input."""

    def __init__(self, driver: CgroupDriver = CgroupDriver.CGROUPFS, **changed: Any) -> None:
        self.asked: list[tuple[tuple[str, ...], bytes]] = []
        target = FakeTarget(commands={(name,): self._answer for name in ("sh", "crun")})
        delegation = Delegation(
            target=target,
            hierarchy=CGROUPS.within(MANAGER if driver is CgroupDriver.SYSTEMD else UNIT),
            controllers=frozenset({"cpuset", "cpu", "memory", "pids"}),
            uid=1000,
            gid=1001,
            folders=UserFolders(home="/home/memqos/.local/share/memqos", run="/run/user/1000"),
            score=100,
        )
        self.runtime = OciRuntime(
            target,
            program="crun",
            driver=driver,
            name="rootless:crun",
            oci=TRIXIE.oci,
            delegation=dataclasses.replace(delegation, **changed),
        )

    def _answer(self, argv: Sequence[str], stdin: bytes, _: Deadline) -> FakeAnswer:
        self.asked.append((tuple(argv), stdin))
        return (0, b'{"pid": 17}\n' if "memqos-create" in argv else b"", b"")

    def create(self, **asked: Any) -> tuple[ContainerHandle, dict[str, Any]]:
        """A container of this request, and its config.json."""
        sandbox = self.runtime.run_sandbox(SPEC, deadline=soon())
        spec = ContainerSpec(name="a", image="memqos.local/memload:1", resources=ContainerResources(**asked))
        handle = self.runtime.create(sandbox, spec, deadline=soon())
        return handle, json.loads(self.asked[-1][1])


def soon() -> Deadline:
    return Deadline.after(5)


def test_a_container_has_a_user_namespace_with_the_users_own_ids() -> None:
    _, config = Machine().create()
    assert {"type": "user"} in config["linux"]["namespaces"]
    assert config["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert config["linux"]["gidMappings"] == [{"containerID": 0, "hostID": 1001, "size": 1}]


def test_without_one_it_shares_that_of_what_starts_the_runtime() -> None:
    _, config = Machine(own_namespace=False).create()
    assert {"type": "user"} not in config["linux"]["namespaces"]
    assert not {"uidMappings", "gidMappings"} & set(config["linux"])


@pytest.mark.parametrize(
    ("driver", "path"),
    [
        (CgroupDriver.SYSTEMD, "pod1:memqos:{}"),
        (
            CgroupDriver.CGROUPFS,
            "/user.slice/user-1000.slice/user@1000.service/app.slice/memqos-delegated.service/kubepods/pod1/memqos-{}",
        ),
    ],
)
def test_its_cgroup_is_below_the_delegated_one(driver: CgroupDriver, path: str) -> None:
    handle, config = Machine(driver).create()
    assert config["linux"]["cgroupsPath"] == path.format(handle.id)


@pytest.mark.parametrize(("asked", "score"), [(-997, 100), (99, 100), (100, 100), (981, 981), (1000, 1000)])
def test_no_score_below_the_users_own_is_asked_for(asked: int, score: int) -> None:
    _, config = Machine().create(oom_score_adj=asked)
    assert config["process"]["oomScoreAdj"] == score


@pytest.mark.parametrize(
    ("controllers", "limits"),
    [({"memory"}, None), ({"memory", "hugetlb"}, [{"pageSize": "2MB", "limit": 4194304}])],
)
def test_limits_of_huge_pages_need_their_controller(controllers: set[str], limits: object) -> None:
    _, config = Machine(controllers=frozenset(controllers)).create(hugepage_limits=(("2MB", 4 << 20),))
    assert config["linux"]["resources"].get("hugepageLimits") == limits


def test_numa_nodes_cannot_be_chosen_without_the_controller_cpuset() -> None:
    assert Capability.CPUSET_MEMS in Machine().runtime.capabilities
    without = Machine(controllers=frozenset({"memory", "cpu", "pids"}))
    assert Capability.CPUSET_MEMS not in without.runtime.capabilities
    assert Capability.UNIFIED in without.runtime.capabilities


def test_all_files_are_the_users_own_and_nothing_is_mounted() -> None:
    machine = Machine()
    handle, _ = machine.create()
    argv = machine.asked[-1][0]
    bundle = f"/home/memqos/.local/share/memqos/bundles/crun/{handle.sandbox.id}/{handle.id}"
    assert handle.log_path == "/home/memqos/.local/share/memqos/logs/var/log/pods/n_p_1/a.log"
    assert f"k8s-file:{handle.log_path}" in argv
    assert argv[argv.index("--bundle") + 1] == bundle
    assert argv[argv.index("--socket-dir-path") + 1] == "/run/user/1000/memqos/conmon"
    assert "/run/user/1000/memqos/oci/crun" in argv
    assert argv[0] == "sh"
    assert "overlay" not in argv[2]
    assert 'cp -R "$lower" "$bundle/rootfs"' in argv[2]


def test_root_has_no_delegation() -> None:
    root = OciRuntime(FakeTarget(), program="crun", driver=CgroupDriver.CGROUPFS)
    assert isinstance(root, Delegated)
    assert root.delegation is None
    assert Machine().runtime.delegation is not None
