"""Enforcement with scripted answers of the agent: its requests, and their effects."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memqos.agent.program import program
from memqos.cgroupfs.hierarchy import CgroupMount, Legacy
from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enforce.apply import Enforcement, find_leftovers
from memqos.errors import MissingProgramError, TargetError
from memqos.model.knob import ABSENT, Bytes, Knob
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.model.path import CgroupPath
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target.fake import FakeAnswer, FakeTarget
from memqos.target.local import LocalTarget
from tests.unit.enforce.plans import plan

ONE = plan(CgroupDriver.SYSTEMD, pods={"1": {Knob.MEMORY_MAX: Bytes(4096)}})
TWO = plan(CgroupDriver.SYSTEMD, pods={"2": {Knob.MEMORY_MAX: Bytes(4096)}})


class Agent:
    """Records the requests, and answers success unless a failure is set."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"done": 0, "killed": [], "failure": None}
        target = FakeTarget(commands={program().once: self.run})
        self.tree = CgroupTree(target, FAKE_HIERARCHY)

    def run(self, _: Sequence[str], stdin: bytes, __: Deadline) -> FakeAnswer:
        request = program().request_in(stdin)
        self.requests.append(request.get("perform", request))
        return 0, json.dumps(self.answer).encode(), b""

    def asked(self) -> list[tuple[str, str]]:
        return [(step["action"], step["path"]) for step in self.requests[-1]["steps"]]


@pytest.fixture
def agent() -> Agent:
    return Agent()


def soon() -> Deadline:
    return Deadline.after(5)


def test_a_plan_is_one_command_and_everything_created_is_removed(agent: Agent) -> None:
    with Enforcement(agent.tree, name="run 7") as enforcement:
        enforcement.apply(ONE, deadline=soon())
        assert enforcement.plan is ONE
        assert len(agent.requests) == 1
        assert agent.requests[0]["mark"] == "run 7"
        assert agent.requests[0]["mounts"] == {"": "/sys/fs/cgroup"}
    assert agent.asked() == [
        ("remove", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"),
        ("remove", "/kubepods.slice/kubepods-burstable.slice"),
        ("remove", "/kubepods.slice"),
    ]
    assert agent.requests[-1]["steps"][0]["unit"] == "kubepods-burstable-pod1.slice"


def test_the_next_plan_changes_only_the_differences(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(ONE, deadline=soon())
    enforcement.apply(TWO, deadline=soon())
    pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice"
    assert agent.asked() == [("make", pod.format(2)), ("remove", pod.format(1))]
    enforcement.apply(TWO, deadline=soon())
    assert len(agent.requests) == 2
    enforcement.withdraw(deadline=soon())
    assert ("remove", pod.format(2)) in agent.asked()
    assert ("remove", pod.format(1)) not in agent.asked()
    assert enforcement.plan is None


def test_withdrawing_twice_is_allowed(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.withdraw(deadline=soon())
    assert agent.requests == []


def test_a_failed_step_is_named_and_earlier_ones_are_undone(agent: Agent) -> None:
    agent.answer["failure"] = {"step": 1, "what": "writing '1' to 'x' failed: Invalid argument", "kind": "refused"}
    enforcement = Enforcement(agent.tree, name="x")
    with pytest.raises(TargetError, match="could not make the cgroup of QoS class Burstable: writing '1'") as caught:
        enforcement.apply(ONE, deadline=soon())
    assert caught.value.where == "fake:///kubepods.slice/kubepods-burstable.slice"
    agent.answer["failure"] = None
    enforcement.withdraw(deadline=soon())
    # The pod's step never ran; the failed step may have been done in part.
    assert agent.asked() == [
        ("remove", "/kubepods.slice/kubepods-burstable.slice"),
        ("remove", "/kubepods.slice"),
    ]


def test_after_a_lost_answer_everything_may_exist(agent: Agent) -> None:
    lost = FakeTarget(commands={("python3",): lambda *_: (1, b"", b"Killed")})
    enforcement = Enforcement(CgroupTree(lost, FAKE_HIERARCHY), name="x")
    with pytest.raises(TargetError, match="Killed"):
        enforcement.apply(ONE, deadline=soon())
    lost.on(program().once, agent.run)
    enforcement.withdraw(deadline=soon())
    assert len(agent.asked()) == 3


@pytest.mark.parametrize(("kind", "hint"), [("leftover", "rmdir"), ("foreign", "kubelet")])
def test_an_existing_cgroup_gets_a_next_step(agent: Agent, kind: str, hint: str) -> None:
    agent.answer["failure"] = {"step": 0, "what": "it exists already", "kind": kind}
    with pytest.raises(TargetError) as caught:
        Enforcement(agent.tree, name="x").apply(ONE, deadline=soon())
    assert hint in caught.value.next_step


def test_a_foreign_cgroup_is_not_removed(agent: Agent) -> None:
    agent.answer["failure"] = {"step": 0, "what": "it exists already", "kind": "foreign"}
    enforcement = Enforcement(agent.tree, name="x")
    with pytest.raises(TargetError):
        enforcement.apply(ONE, deadline=soon())
    requests = len(agent.requests)
    enforcement.withdraw(deadline=soon())
    assert len(agent.requests) == requests


def test_killed_processes_are_reported(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(ONE, deadline=soon())
    agent.answer["killed"] = [7, 11]
    assert enforcement.withdraw(deadline=soon()) == (7, 11)


RESERVED = plan(CgroupDriver.SYSTEMD, reserved={Knob.MEMORY_MAX: Bytes(4096), Knob.MEMORY_MIN: ABSENT})


def test_a_reserved_cgroup_is_adopted_and_given_back(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(RESERVED, deadline=soon())
    [adoption] = [step for step in agent.requests[0]["steps"] if step["action"] == "adopt"]
    assert (adoption["path"], adoption["unit"]) == ("/kubeletreserved.slice", "kubeletreserved.slice")
    # The slice's description and dependencies are for one that has to be created.
    assert adoption["properties"] == [["MemoryMax", "t", 4096]]
    assert "Description" in [name for name, *_ in adoption["making"]]
    assert adoption["keeps"] == ["memory.max", "memory.min"]
    assert "MemoryMax" in adoption["keeps_properties"]
    enforcement.withdraw(deadline=soon())
    assert agent.asked() == [
        ("remove", "/kubepods.slice/kubepods-burstable.slice"),
        ("give back", "/kubeletreserved.slice"),
        ("remove", "/kubepods.slice"),
    ]


def test_a_plan_without_the_reserved_cgroup_gives_it_back(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(RESERVED, deadline=soon())
    without = plan(CgroupDriver.SYSTEMD)
    agent.answer["failure"] = {"step": 0, "what": "it is busy", "kind": "refused"}
    with pytest.raises(TargetError, match="could not give back the cgroup of reserved "):
        enforcement.apply(without, deadline=soon())
    assert agent.asked() == [("give back", "/kubeletreserved.slice")]
    agent.answer["failure"] = None
    enforcement.withdraw(deadline=soon())
    assert ("give back", "/kubeletreserved.slice") in agent.asked()


def test_leftovers_are_found(agent: Agent) -> None:
    agent.answer = {"leftovers": [["/kubepods.slice", "run 3", False], ["/user.slice", "run 2", True]]}
    assert [str(path) for path in find_leftovers(agent.tree, deadline=soon())] == ["/kubepods.slice", "/user.slice"]


def test_a_program_sent_to_a_target_is_self_contained(tmp_path: Path) -> None:
    """By this host's own Python, without site-packages and without memqos, on folders in place of cgroup v1."""
    for name in ("memory", "cpu"):
        (tmp_path / name).mkdir()
    request = {"leftovers": {"mounts": {name: str(tmp_path / name) for name in ("memory", "cpu")}}}
    argv = [sys.executable, *program().once[1:]]
    done = subprocess.run(argv, input=program().stdin(request), capture_output=True, check=False)
    assert (done.stderr, json.loads(done.stdout)) == (b"", {"leftovers": []})


def test_an_error_in_the_program_shows_its_line(tmp_path: Path) -> None:
    tree = CgroupTree(
        LocalTarget(), Legacy({"cpu": CgroupMount(folder=str(tmp_path), options=frozenset(), version=CgroupVersion.V1)})
    )
    with pytest.raises(TargetError, match=r"(?s)the agent failed: .*KeyError: 'memory'"):
        find_leftovers(tree, deadline=Deadline.after(30))


def test_a_target_without_python_is_not_able() -> None:
    tree = CgroupTree(FakeTarget(), FAKE_HIERARCHY)
    with pytest.raises(MissingProgramError, match="python3"):
        Enforcement(tree, name="x").apply(ONE, deadline=soon())


GROWN = {Knob.MEMORY_MAX: Bytes(8192), Knob.MEMORY_LOW: Bytes(4096)}


@pytest.mark.parametrize(("past_driver", "properties"), [(False, ["MemoryLow", "MemoryMax"]), (True, [])])
def test_a_pods_cgroup_is_rewritten_in_place(agent: Agent, past_driver: bool, properties: list[str]) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(ONE, deadline=soon())
    grown = plan(CgroupDriver.SYSTEMD, pods={"1": GROWN})
    enforcement.rewrite(grown.pods[0].cgroup, past_driver=past_driver, deadline=soon())
    (step,) = agent.requests[-1]["steps"]
    assert step["action"] == "change"
    assert step["writes"] == [["memory.max", "8192"], ["memory.low", "4096"]]
    assert [name for name, *_ in step["properties"]] == properties
    assert len(agent.requests) == 2
    # The rewritten values are in force: the same plan changes nothing more.
    enforcement.apply(grown, deadline=soon())
    assert len(agent.requests) == 2


def test_a_refused_rewriting_names_the_pod_and_leaves_the_plan(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    enforcement.apply(ONE, deadline=soon())
    agent.answer = {
        "done": 0,
        "killed": [],
        "failure": {"step": 0, "what": "Device or resource busy", "kind": "refused"},
    }
    with pytest.raises(TargetError, match="could not change the cgroup of pod 1: Device or resource busy"):
        enforcement.rewrite(plan(CgroupDriver.SYSTEMD, pods={"1": GROWN}).pods[0].cgroup, deadline=soon())
    assert enforcement.plan is ONE


def test_only_a_pod_in_force_is_rewritten(agent: Agent) -> None:
    enforcement = Enforcement(agent.tree, name="x")
    with pytest.raises(ValueError, match="is not the cgroup of a pod that is in force"):
        enforcement.rewrite(ONE.pods[0].cgroup, deadline=soon())
    enforcement.apply(ONE, deadline=soon())
    with pytest.raises(ValueError, match="is not the cgroup of a pod"):
        enforcement.rewrite(TWO.pods[0].cgroup, deadline=soon())


def test_files_of_controllers_that_are_not_delegated_are_not_written(agent: Agent) -> None:
    asked = {Knob.MEMORY_MAX: Bytes(4096), Knob.HUGETLB_2MB_MAX: Bytes(0)}
    part = FAKE_HIERARCHY.within(CgroupPath.parse("/user.slice"), frozenset({"memory"}))
    for tree, written in ((agent.tree, True), (CgroupTree(agent.tree.target, part), False)):
        Enforcement(tree, name="x").apply(plan(CgroupDriver.SYSTEMD, pods={"1": asked}), deadline=soon())
        [*_, pod] = agent.requests[-1]["steps"]
        files = [name for name, _ in pod["writes"]]
        assert "memory.max" in files
        assert ("hugetlb.2MB.max" in files) is written
