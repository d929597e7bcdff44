"""cgroup v1 for real, on the profiles that can have it: enforced by both drivers, judged, and what must not pass.

Not in the gate: run with `./memqos test -e profiles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.cgroupfs.tree import CgroupTree
from memqos.enforce.apply import Enforcement, find_leftovers
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings
from memqos.model.pod import Container, Pod, Resources
from memqos.model.quantity import Quantity
from memqos.probe.facts import target_facts
from memqos.target.base import Target
from memqos.vm.qemu.machine import Machine
from tests.vm.machines import output, soon, start
from tests.vm.runs import altering_runtime, bundle, memqos_run

pytestmark = [pytest.mark.vm, pytest.mark.profiles]

LEGACY = [name for name in profile_names() if not load_profile(name).cgroup_v1.refused]
FORGETS_SWAP = 'resources.get("memory", {}).pop("swap", None); resources.setdefault("cpu", {})["shares"] = 100'
"""Ignores linux.resources.memory.swap, and gives every container the same CPU shares."""


def run_on_v1(folder: Path, profile: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """A run with cgroup v1: its status, its bundle, and its output."""
    done = memqos_run(folder, "--profile", profile, "--cgroup", "v1", *arguments)
    said = done.stdout + done.stderr
    assert (folder / "bundle.json").exists(), said
    return done.returncode, bundle(folder), said


@pytest.mark.parametrize("driver", CgroupDriver)
@pytest.mark.parametrize("profile", LEGACY)
def test_every_file_of_the_v1_controllers_holds_its_value(tmp_path, profile, driver):
    chosen = "values and v1.24 and not swap"
    status, written, said = run_on_v1(tmp_path / "results", profile, "--driver", driver, "-k", chosen)

    assert status == 0, said
    assert {result["outcome"] for result in written["results"]} == {"conforms"}
    judged = {finding["knob"] for result in written["results"] for finding in result["findings"]}
    assert judged >= {
        "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness", "cpu.shares", "cpu.cfs_quota_us",
        "cpu.cfs_period_us", "pids.max", "cpuset.mems", "hugetlb.2MB.limit_in_bytes", "oom_score_adj",
    }  # fmt: skip
    assert written["machines"][0]["facts"]["cgroup_version"] == "v1"


@pytest.mark.parametrize("profile", LEGACY)
def test_limits_work_and_cgroup_v2_is_not_observable(tmp_path, profile):
    status, written, said = run_on_v1(tmp_path / "results", profile, "-m", "behaviour")

    assert status == 0, said
    outcomes = {result["claim"]: (result["outcome"], result["reason"]) for result in written["results"]}
    shown = {claim for claim, (outcome, _) in outcomes.items() if outcome == "conforms"}
    assert shown == {"cgroup-v1/limit-kills", "cgroup-v1/memsw-bounds-swap", "cgroup-v1/no-memsw-swaps"}
    others = {claim: told for claim, told in outcomes.items() if claim not in shown}
    assert set(others) >= {"throttling/high-throttles", "swap/limit-is-reached", "numa/mems-pins-anonymous-memory"}
    assert {outcome for outcome, _ in others.values()} == {"not observable"}
    assert all("cgroup v1" in reason for _, reason in others.values())


@pytest.mark.parametrize("profile", LEGACY)
def test_a_runtime_that_forgets_the_limit_of_memory_and_swap_deviates(tmp_path, profile):
    wrapper = altering_runtime(tmp_path / "my-runc", FORGETS_SWAP)

    chosen = "values and v1.24-limited-swap-burstable and containers"
    status, written, said = run_on_v1(tmp_path / "results", profile, "--runtime-binary", str(wrapper), "-k", chosen)

    assert status == 1, said
    [result] = written["results"]
    deviations = {one["knob"]: one for one in result["findings"] if one["verdict"] == "deviates"}
    assert set(deviations) == {"memory.memsw.limit_in_bytes", "cpu.shares"}
    assert deviations["memory.memsw.limit_in_bytes"]["observed"] == "9223372036854771712"
    assert deviations["cpu.shares"]["observed"] == "100"
    assert all("/cri-containerd-" in one["cgroup"] for one in deviations.values())


@pytest.fixture(scope="module", params=LEGACY)
def machine(request, tmp_path_factory) -> Iterator[Machine]:
    with start(tmp_path_factory.mktemp("log"), profile=request.param, cgroup=CgroupVersion.V1) as machine:
        yield machine


@pytest.fixture
def target(machine: Machine) -> Target:
    return machine.target


@pytest.fixture
def tree(target: Target) -> CgroupTree:
    return CgroupTree.of(target, deadline=soon())


@pytest.fixture(params=list(CgroupDriver))
def plan(request, target: Target) -> Plan:
    """One Guaranteed pod, and a reserved cgroup that exists already: systemd's own slice, or the folder of tests."""
    amounts = {"cpu": Quantity.parse("1"), "memory": Quantity.parse("64Mi")}
    pod = Pod(
        name="web", uid="0001", containers=(Container(name="a", resources=Resources(requests=amounts, limits=amounts)),)
    )
    settings = KubeletSettings(
        enforce_node_allocatable=("pods", "system-reserved"),
        system_reserved={"memory": Quantity.parse("1Gi")},
        system_reserved_cgroup="/system" if request.param is CgroupDriver.SYSTEMD else "/spare",
    )
    facts = target_facts(target, deadline=soon()).node
    return expect([pod], Kubelet.of(node=facts, settings=settings, release="1.24", driver=request.param))


def folders(machine: Machine) -> list[str]:
    """Every folder of kubepods, in all hierarchies."""
    return output(machine, "sh", "-c", "find /sys/fs/cgroup -name 'kubepods*' -prune").split()


def test_a_plan_is_enforced_in_every_hierarchy_and_withdrawn(machine: Machine, tree: CgroupTree, plan: Plan) -> None:
    tree.make([plan.reserved[0].path], deadline=soon())
    limit = Knob.MEMORY_LIMIT_IN_BYTES
    before = tree.read_text(plan.reserved[0].path, limit, deadline=soon())
    with Enforcement(tree, name="test") as enforcement:
        enforcement.apply(plan, deadline=soon())
        cgroups = [plan.node, *plan.qos, *plan.reserved, plan.pods[0].cgroup]
        reading = tree.read_cgroups([cgroup.path for cgroup in cgroups], list(Knob), deadline=soon())
        wrong = [
            (str(cgroup.path), str(knob), reading.file(cgroup.path, knob), str(expected.value))
            for cgroup in cgroups
            for knob, expected in cgroup.knobs.items()
            if knob.parse(str(reading.file(cgroup.path, knob))) != expected.value
        ]
        assert wrong == []
        assert tree.read_text(plan.reserved[0].path, limit, deadline=soon()) == "1073741824\n"
        hierarchies = {name.split("/")[4] for name in folders(machine)}
        assert hierarchies >= {"memory", "cpu,cpuacct", "cpuset", "pids", "hugetlb"}
        cpus = output(machine, "cat", f"/sys/fs/cgroup/cpuset{plan.pods[0].cgroup.path}/cpuset.cpus").strip()
        assert cpus == output(machine, "cat", "/sys/fs/cgroup/cpuset/cpuset.cpus").strip() != ""
        # Its processes are killed when it is removed.
        pod = plan.pods[0].cgroup.path
        processes = tree.hierarchy.file(pod, "cgroup.procs")
        output(machine, "sh", "-c", f"sleep 600 >/dev/null 2>&1 & echo $! >{processes}")
        [pid] = tree.processes(pod, deadline=soon())
        assert tree.cgroup_of(pid, deadline=soon()) == pod
        assert enforcement.withdraw(deadline=soon()) == (pid,)
    assert folders(machine) == []
    assert tree.read_text(plan.reserved[0].path, limit, deadline=soon()) == before
    assert find_leftovers(tree, deadline=soon()) == ()


def test_what_a_dead_run_left_on_cgroup_v1_is_found(machine: Machine, tree: CgroupTree, plan: Plan) -> None:
    tree.make([plan.reserved[0].path], deadline=soon())
    dead = Enforcement(tree, name="dead run")
    dead.apply(plan, deadline=soon())
    left = set(find_leftovers(tree, deadline=soon()))
    assert left >= {plan.node.path, plan.pods[0].cgroup.path, plan.reserved[0].path}
    dead.withdraw(deadline=soon())
    assert (find_leftovers(tree, deadline=soon()), folders(machine)) == ((), [])
