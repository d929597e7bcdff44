"""What memqos makes of a user's delegation on a machine, and how it starts programs as that user."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memqos.cgroupfs.hierarchy import CgroupMount, Unified
from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError
from memqos.model.node import CgroupDriver
from memqos.place.rootless import COPIES, UserTarget, delegated, users_program
from memqos.target.fake import FakeAnswer, FakeTarget

CGROUPS = Unified(CgroupMount(folder="/sys/fs/cgroup", options=frozenset()))
MANAGER = "/user.slice/user-1000.slice/user@1000.service"
UNIT = f"{MANAGER}/app.slice/memqos-delegated.service"
TOLD = f"1000 1001 /home/memqos 77 100 {MANAGER} {UNIT}\ncpuset cpu memory pids\nmemory pids\n"


def soon() -> Deadline:
    return Deadline.after(5)


def machine(told: str = TOLD) -> FakeTarget:
    return FakeTarget(commands={("sh",): lambda *_: (0, told.encode(), b"")})


@pytest.mark.parametrize(
    ("driver", "above", "controllers"),
    [
        (CgroupDriver.SYSTEMD, MANAGER, {"cpuset", "cpu", "memory", "pids"}),
        (CgroupDriver.CGROUPFS, UNIT, {"memory", "pids"}),
    ],
)
def test_the_part_of_the_user_depends_on_the_driver(driver: CgroupDriver, above: str, controllers: set[str]) -> None:
    user, _ = delegated(machine(), CGROUPS, driver, deadline=soon())
    assert str(user.above) == above
    assert user.controllers == controllers
    assert user.hierarchy.lacks("hugetlb.2MB.max")
    assert (user.uid, user.gid, user.score) == (1000, 1001, 100)
    assert user.folders.bundles == "/home/memqos/.local/share/memqos/bundles"


def test_commands_begin_in_the_users_cgroup_with_its_score_and_rights() -> None:
    user, starting = delegated(machine(), CGROUPS, CgroupDriver.SYSTEMD, deadline=soon())
    assert isinstance(user.target, UserTarget)
    assert starting == user.target
    entered = user.target.enter
    assert f"/sys/fs/cgroup{UNIT}/init" in entered
    assert entered[entered.index(f"/sys/fs/cgroup{UNIT}/init") + 1] == "100"
    assert {"--reuid=1000", "--regid=1001", "XDG_RUNTIME_DIR=/run/user/1000"} <= set(entered)
    assert "nsenter" not in entered


def test_a_shared_user_namespace_is_that_of_the_delegated_unit() -> None:
    user, starting = delegated(machine(), CGROUPS, CgroupDriver.SYSTEMD, own_namespace=False, deadline=soon())
    assert isinstance(starting, UserTarget)
    assert {"nsenter", "--target=77", "--user"} <= set(starting.enter)
    assert isinstance(user.target, UserTarget)
    assert "nsenter" not in user.target.enter


def test_without_the_memory_controller_nothing_can_be_tried() -> None:
    told = TOLD.replace("cpuset cpu memory pids", "cpu pids")
    with pytest.raises(EnvironmentNotAbleError, match="delegates no memory controller"):
        delegated(machine(told), CGROUPS, CgroupDriver.SYSTEMD, deadline=soon())


@pytest.mark.parametrize(("startable", "found", "copied"), [(True, "runc", 0), (False, f"{COPIES}/runc", 1)])
def test_a_program_that_the_user_cannot_start_is_copied(startable: bool, found: str, copied: int) -> None:
    copies: list[Sequence[str]] = []

    def root(argv: Sequence[str], *_: object) -> FakeAnswer:
        copies.append(argv)
        return 0, b"", b""

    target = FakeTarget(commands={("sh",): root, ("as-user",): lambda *_: (0 if startable else 1, b"", b"")})
    assert users_program(target, UserTarget(target, ("as-user",)), "runc", deadline=soon()) == found
    assert [tuple(argv)[-2:] for argv in copies] == [("runc", COPIES)] * copied
