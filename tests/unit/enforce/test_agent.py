"""The agent on a folder in place of a cgroup mount, with files prepared where a kernel would create them."""

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.agent import cgroup, steps
from memqos.agent import systemd as bus
from tests.unit.enforce.systemd_on_a_socket import SystemdOnASocket


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    return tmp_path


@pytest.fixture(autouse=True)
def marks(monkeypatch: pytest.MonkeyPatch) -> dict[Path, bytes]:
    """Extended attributes in memory: those of a cgroup need privileges on an ordinary file system."""
    kept: dict[Path, bytes] = {}

    def key(path: Path, name: str) -> Path:
        return path / "kept" if name == steps.KEPT else path

    def get(path: Path, name: str) -> bytes:
        if key(path, name) not in kept:
            raise OSError(errno.ENODATA, "No data available")
        return kept[key(path, name)]

    monkeypatch.setattr(os, "setxattr", lambda path, name, value: kept.update({key(path, name): value}))
    monkeypatch.setattr(os, "getxattr", get)
    monkeypatch.setattr(os, "removexattr", lambda path, name: kept.pop(key(path, name)))
    return kept


def perform(asked: dict[str, Any], path: Path = Path("/nonexistent/bus")) -> dict[str, Any]:
    """The agent's answer; path: the socket of its systemd."""
    with contextlib.closing(bus.Manager(path=str(path), seconds=5.0)) as manager:
        return steps.perform(asked, manager)


def request(mount: Path, *steps: dict[str, Any], seconds: float = 0.1) -> dict[str, Any]:
    return {"mounts": {"": str(mount)}, "mark": "run 1", "seconds": seconds, "steps": list(steps)}


def step(action: str, path: str, *writes: list[str], unit: str = "", keeps: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "action": action,
        "path": path,
        "unit": unit,
        "properties": [["MemoryMax", "t", 4096]],
        "writes": list(writes),
        "making": [["Description", "s", "test"]],
        "keeps": list(keeps),
        "keeps_properties": ["MemoryMax", "AllowedCPUs"],
    }


def test_a_cgroup_is_created_marked_and_given_controllers(mount: Path) -> None:
    answer = perform(request(mount, step("make", "/kubepods")))
    assert answer == {"done": 1, "killed": [], "failure": None}
    assert (mount / "kubepods").is_dir()
    # One write for each controller that is not enabled yet; a file keeps the last one, a kernel adds them up.
    assert (mount / "cgroup.subtree_control").read_text().startswith("+memory")


def test_files_are_written_in_turn(mount: Path) -> None:
    (mount / "a").mkdir()
    for name in ("memory.max", "memory.min"):
        (mount / "a" / name).write_text("")
    answer = perform(request(mount, step("change", "/a", ["memory.max", "max"], ["memory.min", "0"])))
    assert answer["failure"] is None
    assert [(mount / "a" / name).read_text() for name in ("memory.max", "memory.min")] == ["max", "0"]


def test_the_step_that_fails_is_named_and_later_ones_are_not_done(mount: Path) -> None:
    answer = perform(request(mount, step("make", "/a"), step("make", "/b", ["memory.max", "1"]), step("make", "/c")))
    assert answer["done"] == 1
    assert answer["failure"] == {
        "step": 1,
        "what": f"writing '1' to '{mount}/b/memory.max' failed: No such file or directory",
        "kind": "refused",
    }
    assert not (mount / "c").exists()


def test_a_foreign_cgroup_is_not_taken_over(mount: Path) -> None:
    (mount / "kubepods").mkdir()
    failure = perform(request(mount, step("make", "/kubepods")))["failure"]
    assert (failure["kind"], failure["step"]) == ("foreign", 0)


def test_leftovers_of_earlier_runs_are_distinguished_from_other_cgroups(mount: Path) -> None:
    perform(request(mount, step("make", "/kubepods")))
    failure = perform(request(mount, step("make", "/kubepods")))["failure"]
    assert failure["kind"] == "leftover"
    assert "'run 1'" in failure["what"]
    (mount / "other").mkdir()
    assert steps.leftovers({"": str(mount)}) == [("/kubepods", "run 1", False)]


def test_a_foreign_cgroup_is_neither_killed_nor_removed(mount: Path, marks: dict[Path, bytes]) -> None:
    (mount / "kubepods").mkdir()
    (mount / "kubepods" / "cgroup.procs").write_text("7\n")
    (mount / "kubepods" / "cgroup.kill").write_text("")
    for mark in (None, b"run 2"):
        if mark:
            marks[mount / "kubepods"] = mark
        answer = perform(request(mount, step("remove", "/kubepods")))
        assert (answer["done"], answer["failure"]["kind"]) == (0, "foreign")
        assert (mount / "kubepods" / "cgroup.kill").read_text() == ""


def test_a_removal_includes_descendants_and_ignores_missing_cgroups(mount: Path, marks: dict[Path, bytes]) -> None:
    (mount / "a" / "b" / "c").mkdir(parents=True)
    marks[mount / "a"] = b"run 1"
    answer = perform(request(mount, step("remove", "/a"), step("remove", "/gone")))
    assert answer == {"done": 2, "killed": [], "failure": None}
    assert not (mount / "a").exists()


def test_processes_are_killed_and_named(mount: Path, marks: dict[Path, bytes]) -> None:
    folder = mount / "a" / "b"
    folder.mkdir(parents=True)
    marks[mount / "a"] = b"run 1"
    (folder / "cgroup.procs").write_text("7\n11\n")
    (mount / "a" / "cgroup.kill").write_text("")
    answer = perform(request(mount, step("remove", "/a")))
    assert answer["killed"] == [7, 11]
    assert (mount / "a" / "cgroup.kill").read_text() == "1"
    assert answer["failure"] == {"step": 0, "what": "it still exists after 0 s", "kind": "refused"}


def test_an_empty_cgroup_is_not_searched_for_processes(mount: Path, marks: dict[Path, bytes]) -> None:
    (mount / "a").mkdir()
    marks[mount / "a"] = b"run 1"
    (mount / "a" / "cgroup.procs").write_text("7\n")
    for populated, killed in (("1", [7]), ("0", [])):
        (mount / "a" / "cgroup.kill").write_text("")
        (mount / "a" / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
        assert perform(request(mount, step("remove", "/a")))["killed"] == killed
        assert (mount / "a" / "cgroup.kill").read_text() == ("1" if killed else "")


@pytest.fixture
def legacy(tmp_path: Path) -> dict[str, str]:
    """Four hierarchies of cgroup v1, the cpuset's with CPUs and zones in its root."""
    mounts = {name: str(tmp_path / name) for name in ("memory", "cpu", "cpuset", "systemd")}
    for folder in mounts.values():
        Path(folder).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    return mounts | {"cpuacct": mounts["cpu"]}


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cgroup in the cpuset's hierarchy has its files, which are empty, as a kernel gives them to it."""
    mkdir = Path.mkdir

    def make(folder: Path, *arguments: Any, **options: Any) -> None:
        mkdir(folder, *arguments, **options)
        for above in (folder, *folder.parents):
            if "cpuset" in above.parent.parts and not (above / "cpuset.cpus").exists():
                (above / "cpuset.cpus").write_text("\n")
                (above / "cpuset.mems").write_text("\n")

    monkeypatch.setattr(Path, "mkdir", make)


def on_legacy(mounts: dict[str, str], *steps: dict[str, Any]) -> dict[str, Any]:
    return perform({"mounts": mounts, "mark": "run 1", "seconds": 0.1, "steps": list(steps)})


@pytest.mark.usefixtures("born", "kernel")
def test_a_cgroup_v1_is_created_in_every_hierarchy_with_its_parents_cpus_and_nodes(
    legacy: dict[str, str], tmp_path: Path, marks: dict[Path, bytes]
) -> None:
    assert on_legacy(legacy, step("make", "/kubepods/pod1"))["failure"] is None
    assert all((tmp_path / name / "kubepods" / "pod1").is_dir() for name in ("memory", "cpu", "cpuset", "systemd"))
    for path in ("kubepods", "kubepods/pod1"):
        assert (tmp_path / "cpuset" / path / "cpuset.cpus").read_text() == "0-1"
        assert (tmp_path / "cpuset" / path / "cpuset.mems").read_text() == "0"
    assert set(marks) == {tmp_path / "memory" / "kubepods" / "pod1"}
    assert steps.leftovers(legacy) == [("/kubepods/pod1", "run 1", False)]


@pytest.mark.usefixtures("kernel")
def test_a_file_of_cgroup_v1_is_written_in_its_controllers_hierarchy(legacy: dict[str, str], tmp_path: Path) -> None:
    for name, file in (("memory", "memory.limit_in_bytes"), ("cpu", "cpu.shares")):
        (tmp_path / name / "a").mkdir()
        (tmp_path / name / "a" / file).write_text("")
    writes = (["memory.limit_in_bytes", "4096"], ["cpu.shares", "2"])
    assert on_legacy(legacy, step("change", "/a", *writes))["failure"] is None
    assert (tmp_path / "memory" / "a" / "memory.limit_in_bytes").read_text() == "4096"
    assert (tmp_path / "cpu" / "a" / "cpu.shares").read_text() == "2"


def test_processes_of_cgroup_v1_are_killed_by_signals_and_its_folders_removed(
    legacy: dict[str, str], tmp_path: Path, marks: dict[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("memory", "cpu", "systemd"):
        (tmp_path / name / "a" / "b").mkdir(parents=True)
    marks[tmp_path / "memory" / "a"] = b"run 1"
    listing = tmp_path / "memory" / "a" / "b" / "cgroup.procs"
    listing.write_text("7\n0\n")
    killed: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        killed.append((pid, number))
        # Before it ends it has forked.
        listing.write_text("0\n11\n") if pid == 7 else listing.unlink()

    monkeypatch.setattr(os, "kill", kill)
    answer = on_legacy(legacy, step("remove", "/a"))
    assert (answer["failure"], answer["killed"]) == (None, [7, 0])
    assert killed == [(7, signal.SIGKILL), (11, signal.SIGKILL)]
    assert not any((tmp_path / name / "a").exists() for name in ("memory", "cpu", "systemd"))


@pytest.fixture
def systemd(mount: Path) -> Iterator[SystemdOnASocket]:
    with SystemdOnASocket(mount) as systemd:
        yield systemd


def test_a_slice_is_started_changed_and_stopped_through_systemd(mount: Path, systemd: SystemdOnASocket) -> None:
    make, change = step("make", "/a.slice", unit="a.slice"), step("change", "/a.slice", unit="a.slice")
    assert perform(request(mount, make, change), systemd.path)["failure"] is None
    remove = [step("remove", "/a.slice", unit="a.slice"), step("remove", "/b.slice", unit="b.slice")]
    assert perform(request(mount, *remove), systemd.path)["failure"] is None
    properties = [("MemoryMax", ("t", 4096))]
    assert systemd.asked == [
        ["StartTransientUnit", "a.slice", "replace", properties, []],
        ["SetUnitProperties", "a.slice", True, properties],
        ["StopUnit", "a.slice", "replace"],
    ]


def methods(systemd: SystemdOnASocket) -> list[str]:
    return [f"{method} {unit}" for method, unit, *_ in systemd.asked]


def test_slices_are_created_in_order_and_each_is_marked(
    mount: Path, systemd: SystemdOnASocket, marks: dict[Path, bytes]
) -> None:
    names = ("a.slice", "a-b.slice", "c.slice")
    steps = [step("adopt" if name == "c.slice" else "make", f"/{name}", unit=name) for name in names]
    assert perform(request(mount, *steps), systemd.path) == {"done": 3, "killed": [], "failure": None}
    assert marks == {mount / name: b"run 1" for name in names}
    properties = [("MemoryMax", ("t", 4096))]
    assert systemd.asked == [
        ["StartTransientUnit", "a.slice", "replace", properties, []],
        ["StartTransientUnit", "a-b.slice", "replace", properties, []],
        ["StartTransientUnit", "c.slice", "replace", [("Description", ("s", "test")), *properties], []],
    ]


def test_a_slice_requested_ahead_is_stopped_if_the_previous_one_fails(mount: Path, systemd: SystemdOnASocket) -> None:
    steps = [step("make", "/a.slice", ["memory.max", "1"], unit="a.slice"), step("make", "/b.slice", unit="b.slice")]
    answer = perform(request(mount, *steps, step("make", "/c.slice", unit="c.slice")), systemd.path)
    assert (answer["done"], answer["failure"]["step"]) == (0, 0)
    assert answer["failure"]["what"] == f"writing '1' to '{mount}/a.slice/memory.max' failed: No such file or directory"
    assert methods(systemd) == ["StartTransientUnit a.slice", "StartTransientUnit b.slice", "StopUnit b.slice"]


@pytest.mark.parametrize(("method", "stops"), [("StartTransientUnit", False), ("StopUnit", True)])
def test_systemds_answer_about_an_unneeded_slice(
    mount: Path, systemd: SystemdOnASocket, method: str, stops: bool
) -> None:
    systemd.errors[f"{method} b.slice"] = ("org.freedesktop.systemd1.Busy", "Not now.")
    steps = [step("make", "/a.slice", ["memory.max", "1"], unit="a.slice"), step("make", "/b.slice", unit="b.slice")]
    failure = perform(request(mount, *steps), systemd.path)["failure"]
    assert failure["what"].startswith(f"writing '1' to '{mount}/a.slice/memory.max' failed")
    told = "; nor could the slice after it be stopped: StopUnit of 'b.slice' failed: Not now."
    assert failure["what"].endswith(told) == stops


def test_a_refused_slice_fails_its_own_step(mount: Path, systemd: SystemdOnASocket) -> None:
    systemd.errors["StartTransientUnit b.slice"] = ("org.freedesktop.systemd1.UnitMasked", "It is masked.")
    steps = [step("make", f"/{name}", unit=name) for name in ("a.slice", "b.slice", "c.slice")]
    answer = perform(request(mount, *steps), systemd.path)
    assert (answer["done"], answer["failure"]["step"]) == (1, 1)
    assert answer["failure"]["what"] == "StartTransientUnit of 'b.slice' failed: It is masked."
    assert methods(systemd) == ["StartTransientUnit a.slice", "StartTransientUnit b.slice"]


def test_an_existing_slice_is_not_requested(mount: Path, systemd: SystemdOnASocket) -> None:
    (mount / "b.slice").mkdir()
    steps = [step("make", f"/{name}", unit=name) for name in ("a.slice", "b.slice")]
    answer = perform(request(mount, *steps), systemd.path)
    assert (answer["done"], answer["failure"]["kind"]) == (1, "foreign")
    assert methods(systemd) == ["StartTransientUnit a.slice"]


def test_several_slices_are_stopped_at_once(mount: Path, systemd: SystemdOnASocket) -> None:
    names = ("a.slice", "b.slice", "c.slice")
    perform(request(mount, *(step("make", f"/{name}", unit=name) for name in names)), systemd.path)
    systemd.asked.clear()
    systemd.errors["StopUnit b.slice"] = ("org.freedesktop.systemd1.NoSuchUnit", "It is not loaded.")
    answer = perform(request(mount, *(step("remove", f"/{name}", unit=name) for name in names)), systemd.path)
    assert (answer["done"], answer["failure"]) == (3, None)
    assert methods(systemd) == [f"StopUnit {name}" for name in names]


def test_a_slice_without_a_cgroup(mount: Path, systemd: SystemdOnASocket) -> None:
    systemd.makes_cgroups = False
    failure = perform(request(mount, step("make", "/b.slice", unit="b.slice")), systemd.path)["failure"]
    assert failure["what"] == f"systemd started 'b.slice' but '{mount}/b.slice' did not appear"


def test_a_slice_that_has_stopped_meanwhile_is_removed(mount: Path, systemd: SystemdOnASocket) -> None:
    perform(request(mount, step("make", "/a.slice", unit="a.slice")), systemd.path)
    systemd.errors["StopUnit"] = ("org.freedesktop.systemd1.NoSuchUnit", "Unit a.slice not loaded.")
    assert perform(request(mount, step("remove", "/a.slice", unit="a.slice")), systemd.path)["failure"] is None
    assert not (mount / "a.slice").exists()


def test_a_slice_that_systemd_does_not_stop(mount: Path, systemd: SystemdOnASocket) -> None:
    perform(request(mount, step("make", "/a.slice", unit="a.slice")), systemd.path)
    remove = request(mount, step("remove", "/a.slice", unit="a.slice"))
    systemd.result = "timeout"
    assert perform(remove, systemd.path)["failure"]["what"] == "systemd could not stop 'a.slice': its job is timeout"
    systemd.errors["StopUnit"] = ("org.freedesktop.DBus.Error.AccessDenied", "Not now.")
    assert perform(remove, systemd.path)["failure"]["what"] == "StopUnit of 'a.slice' failed: Not now."


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interface files that hold the last text written, as a kernel's do; an ordinary file keeps a longer tail."""

    def put(path: Path, text: str) -> None:
        path.write_text(text)

    monkeypatch.setattr(steps, "put", put)
    monkeypatch.setattr(cgroup, "put", put)


def existing(mount: Path, name: str, **files: str) -> Path:
    """A cgroup of another program, with these files; the first "_" of a name represents its dot."""
    (mount / name).mkdir()
    for file, text in files.items():
        (mount / name / file.replace("_", ".", 1)).write_text(text)
    return mount / name


@pytest.mark.usefixtures("kernel")
def test_an_existing_cgroup_is_adopted_and_gets_its_values_back(mount: Path, marks: dict[Path, bytes]) -> None:
    folder = existing(mount, "system", memory_max="max\n", memory_min="0\n", cpuset_cpus="\n", cpu_weight="50\n")
    keeps = ("memory.max", "memory.min", "cpuset.cpus", "hugetlb.2MB.max")
    adopt = step("adopt", "/system", ["memory.max", "4096"], ["cpuset.cpus", "0-1"], keeps=keeps)
    assert perform(request(mount, adopt))["failure"] is None
    assert (folder / "memory.max").read_text() == "4096"
    assert folder not in marks
    assert steps.leftovers({"": str(mount)}) == [("/system", "run 1", True)]
    # A later plan of the same enforcement writes more; the original values are restored.
    assert perform(request(mount, step("change", "/system", ["memory.min", "1"])))["failure"] is None
    assert perform(request(mount, step("adopt", "/system", ["memory.max", "1"], keeps=keeps)))["failure"] is None
    answer = perform(request(mount, step("give back", "/system")))
    assert answer == {"done": 1, "killed": [], "failure": None}
    assert [(folder / name).read_text() for name in keeps[:3]] == ["max", "0", "\n"]
    assert (folder / "cpu.weight").read_text() == "50\n"
    assert steps.leftovers({"": str(mount)}) == []
    # Once given back there is nothing more to do, nor for one that vanished.
    assert perform(request(mount, step("give back", "/system"), step("give back", "/gone")))["failure"] is None


def test_an_unmarked_slice_of_a_killed_run_is_claimed_by_its_description(
    mount: Path, systemd: SystemdOnASocket, marks: dict[Path, bytes]
) -> None:
    described = {
        "kubepods.slice": "memqos: kubepods",
        "kubepods-burstable.slice": "memqos: the QoS class Burstable",
        "kubepods-gone.slice": "memqos: gone before it was looked for",
        "system.slice": "System Slice",
        "their.slice": "theirs, with memqos: in it",
    }
    for folder in ("kubepods.slice/kubepods-burstable.slice", "system.slice", "their.slice"):
        (mount / folder).mkdir(parents=True)
    marks[mount / "kubepods.slice"] = b"run 1"
    known = [(unit, said, "loaded", "active", "active", "", "/o", 0, "", "/o") for unit, said in described.items()]
    systemd.answers["ListUnitsByPatterns"] = ("a(ssssssouso)", (known,))
    with contextlib.closing(bus.Manager(path=str(systemd.path), seconds=5.0)) as manager:
        steps.claim({"": str(mount)}, manager)
    assert systemd.asked == [["ListUnitsByPatterns", ["active"], ["*.slice"]]]
    assert steps.leftovers({"": str(mount)}) == [
        ("/kubepods.slice", "run 1", False),
        ("/kubepods.slice/kubepods-burstable.slice", "claimed", False),
    ]


def test_processes_of_an_adopted_cgroup_live_on(mount: Path) -> None:
    folder = existing(mount, "system", memory_max="max", cgroup_procs="7\n", cgroup_kill="")
    make, adopt = step("make", "/kubepods"), step("adopt", "/system", ["memory.max", "1"], keeps=("memory.max",))
    perform(request(mount, make, adopt))
    assert perform(request(mount, step("give back", "/system"), step("remove", "/kubepods")))["killed"] == []
    assert (folder / "cgroup.kill").read_text() == ""
    assert folder.is_dir()
    assert not (mount / "kubepods").exists()


def test_a_missing_reserved_cgroup_is_created_and_removed(mount: Path, marks: dict[Path, bytes]) -> None:
    assert perform(request(mount, step("adopt", "/spare")))["failure"] is None
    assert marks[mount / "spare"] == b"run 1"
    assert perform(request(mount, step("give back", "/spare")))["failure"] is None
    assert not (mount / "spare").exists()


@pytest.mark.usefixtures("kernel")
def test_cgroups_of_another_run_are_left_alone(mount: Path, marks: dict[Path, bytes]) -> None:
    existing(mount, "made", memory_max="max")
    marks[mount / "made"] = b"run 0"
    existing(mount, "adopted", memory_max="max")
    other = {**request(mount, step("adopt", "/adopted", ["memory.max", "1"], keeps=("memory.max",))), "mark": "run 0"}
    perform(other)
    for path in ("/made", "/adopted"):
        failure = perform(request(mount, step("adopt", path, ["memory.max", "2"])))["failure"]
        assert (failure["kind"], "'run 0'" in failure["what"]) == ("leftover", True)
    failure = perform(request(mount, step("give back", "/adopted")))["failure"]
    assert failure["kind"] == "foreign"
    assert (mount / "adopted" / "memory.max").read_text() == "1"


def test_a_slice_of_systemds_keeps_its_properties(mount: Path, systemd: SystemdOnASocket) -> None:
    existing(mount, "system.slice", memory_max="max")
    held = {"MemoryMax": ("t", 2**64 - 1), "AllowedCPUs": ("ay", b"\x03"), "TasksMax": ("t", 7)}
    systemd.answers["GetAll"] = ("a{sv}", (held,))
    adopt = step("adopt", "/system.slice", ["memory.max", "4096"], unit="system.slice", keeps=("memory.max",))
    assert perform(request(mount, adopt), systemd.path)["failure"] is None
    back = step("give back", "/system.slice", unit="system.slice")
    assert perform(request(mount, back), systemd.path)["failure"] is None
    assert systemd.asked == [
        ["GetAll", "org.freedesktop.systemd1.Slice"],
        ["SetUnitProperties", "system.slice", True, [("MemoryMax", ("t", 4096))]],
        [
            "SetUnitProperties",
            "system.slice",
            True,
            [("MemoryMax", ("t", 2**64 - 1)), ("AllowedCPUs", ("ay", b"\x03"))],
        ],
    ]


def test_a_unit_is_an_object_by_its_name() -> None:
    assert bus.object_of("kube-a_b.slice") == "/org/freedesktop/systemd1/unit/kube_2da_5fb_2eslice"


def test_systemds_message_is_the_reason(mount: Path, systemd: SystemdOnASocket) -> None:
    systemd.errors["StartTransientUnit"] = ("org.freedesktop.systemd1.UnitMasked", "Unit a.slice is masked.")
    failure = perform(request(mount, step("make", "/a.slice", unit="a.slice")), systemd.path)["failure"]
    assert failure["what"] == "StartTransientUnit of 'a.slice' failed: Unit a.slice is masked."


def test_a_systemd_that_hangs_up(mount: Path, systemd: SystemdOnASocket) -> None:
    systemd.hangs_up = True
    failure = perform(request(mount, step("make", "/a.slice", unit="a.slice")), systemd.path)["failure"]
    assert failure["what"] == f"systemd does not answer by '{systemd.path}': the other side has closed the connection"


def test_a_machine_without_systemd(mount: Path) -> None:
    failure = perform(request(mount, step("make", "/a.slice", unit="a.slice")))["failure"]
    assert failure["what"] == "systemd cannot be reached by '/nonexistent/bus': [Errno 2] No such file or directory"
