"""Checkpoints of real machines: clones are pristine and alone, damage is noticed, and many of them work in a row."""

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from memqos.catalog.profiles import load_profile
from memqos.catalog.topologies import load_topology
from memqos.clock import Deadline, wait
from memqos.errors import MachineryError
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.checkpoint import checkpoints_folder, load_checkpoint, seal_checkpoint
from memqos.vm.kept import end_kept, keep, list_kept
from memqos.vm.qemu.machine import MachineState
from memqos.workload.command import Anon, Exit, arguments
from tests.progress import Notes
from tests.vm.machines import output, soon, start

pytestmark = pytest.mark.vm

MIB = 1 << 20
RESTORES = int(os.environ.get("MEMQOS_TEST_RESTORES", "2"))
"""How many restores in a row; the environment `restores` of tox asks for a hundred."""


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    """Two clones of one checkpoint that run side by side, the first with a file and a hostname of its own."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(start(tmp_path_factory.mktemp("first"), topology="two-numa-nodes"))
        output(first, "sh", "-c", "echo mine >/root/mine; sync; hostname changed")
        yield first, stack.enter_context(start(tmp_path_factory.mktemp("second"), topology="two-numa-nodes"))


def test_a_clone_sees_nothing_of_another_one(clones):
    first, second = clones
    assert output(first, "cat", "/root/mine") == "mine\n"
    assert second.target.read("/root/mine", deadline=soon()) is None
    assert output(second, "hostname") == "memqos\n"
    assert first.provenance["checkpoint"] == second.provenance["checkpoint"]


def test_a_clone_s_clock_is_right_and_its_systemd_well(clones):
    for machine in clones:
        before = time.time()
        told = float(output(machine, "date", "+%s.%N"))
        assert before - 2 <= told <= time.time() + 0.1
        assert output(machine, "systemctl", "is-system-running") == "running\n"
        assert output(machine, "systemctl", "list-units", "--failed", "--plain", "--no-legend") == ""


def test_an_emulated_clone_runs_the_image_s_own_runc_sealed_in_memory(clones):
    for machine in clones:
        if "runc" not in machine.provenance:
            assert machine.provenance["accelerator"] == "kvm"
            continue
        assert machine.provenance["runc"].startswith("from a sealed copy in memory")
        assert output(machine, "sh", "-c", "readlink $(readlink /usr/sbin/runc)").startswith("/memfd:runc")
        kept = "grep usr/sbin/runc /var/lib/dpkg/info/runc.md5sums"
        assert output(machine, "sh", "-c", f"cd / && {kept} | md5sum --check -") == "usr/sbin/runc: OK\n"


def test_clones_have_entropy_of_their_own(clones):
    drawn = [output(machine, "cat", "/proc/sys/kernel/random/uuid") for machine in clones]
    drawn += [output(machine, "sh", "-c", "head -c 16 /dev/urandom | od -An -tx1") for machine in clones]
    assert len(set(drawn)) == len(drawn)
    for machine in clones:
        assert "crng reseeded due to virtual machine fork" in output(machine, "dmesg")


def test_a_clone_has_the_topology_and_the_swap_of_a_machine_that_booted(clones):
    second = clones[1]
    assert output(second, "sh", "-c", "cat /sys/devices/system/node/node*/cpulist").split() == ["0", "1"]
    swap = output(second, "swapon", "--noheadings", "--bytes", "--show=SIZE,PRIO").split()
    assert swap == [str(512 * MIB - 4096), "10"]


def test_a_container_runs_in_a_clone(clones):
    second = clones[1]
    assert "memqos.local/pause:1" in output(second, "ctr", "--namespace=k8s.io", "images", "list", "--quiet")
    assert run_container(second).status == 0


def run_container(machine):
    argv = ["ctr", "--namespace=k8s.io", "run", "--rm", "memqos.local/memload:1", "one", "/memload"]
    return machine.target.run([*argv, *arguments([Anon(size=4 * MIB), Exit()])], deadline=soon())


def test_a_clone_shares_untouched_memory(clones):
    """Two machines of 2 GiB: together they hold far less memory than either was given."""
    for machine in clones:
        anonymous = Path(f"/proc/{machine.pid}/smaps_rollup").read_text().split("Anonymous:")[1].split()[0]
        assert int(anonymous) * 1024 < 600 * MIB


def test_a_checkpoint_is_created_once(tmp_path):
    with start(tmp_path / "first"):
        pass
    notes = Notes()
    with start(tmp_path / "second", progress=notes) as machine:
        assert machine.state is MachineState.READY
    assert notes.steps == []


def cache_without_checkpoints(tmp_path: Path) -> Path:
    """A cache with the real one's images.

    The keys are copies that lost their permissions, as in an archived cache.
    """
    real, root = default_cache(os.environ).root, tmp_path / "cache"
    shutil.copytree(real / "keys", root / "keys", copy_function=shutil.copyfile)
    for part in ("images", "locks"):
        (root / part).symlink_to(real / part)
    checkpoints_folder(default_cache({"MEMQOS_CACHE": str(root)}))
    return root


def harmed_copy(name: str, tmp_path: Path, harm) -> Path:
    """A cache like the real one whose checkpoint of this name is damaged."""
    real, root = default_cache(os.environ).root, cache_without_checkpoints(tmp_path)
    copy = ["cp", "--archive", "--sparse=always", real / "checkpoints" / name, root / "checkpoints" / name]
    subprocess.run(copy, check=True)
    harm(root / "checkpoints" / name)
    return root


def test_a_damaged_checkpoint_is_recreated_with_a_note(tmp_path, monkeypatch):
    """By a boot, whose output begins the console of each machine from that checkpoint."""
    with start(tmp_path / "good") as machine:
        name = machine.provenance["checkpoint"]

    def cut(folder):
        (folder / "numa0.ram").chmod(0o600)
        os.truncate(folder / "numa0.ram", 100 * MIB)

    root = harmed_copy(name, tmp_path, cut)
    monkeypatch.setenv("MEMQOS_CACHE", str(root))
    notes = Notes()
    with start(tmp_path / "log", progress=notes) as machine:
        assert output(machine, "true") == ""
        booted = load_checkpoint(root / "checkpoints" / name).console.read_bytes()
        assert booted
        assert machine.console.path.read_bytes().startswith(booted)
    damaged = [note for note in notes.notes if name in note]
    assert damaged == [f"the checkpoint '{name}' in the cache is damaged and is rebuilt."]
    assert len(notes.steps) == 1


class StoppedError(Exception):
    """The next part takes long, and is tested elsewhere."""


class OnlyNotes(Notes):
    """Progress up to the first step."""

    def start(self, name):
        super().start(name)
        raise StoppedError


def test_a_checkpoint_whose_state_qemu_rejects_is_recreated(tmp_path, monkeypatch):
    """Its manifest is valid, and still it cannot be restored: it is removed, and another boot begins."""
    with start(tmp_path / "good") as machine:
        name = machine.provenance["checkpoint"]

    def vouch_for_nonsense(folder):
        manifest = load_checkpoint(default_cache(os.environ).root / "checkpoints" / name).manifest
        for path in folder.iterdir():
            path.chmod(0o600)
        (folder / "checkpoint.json").unlink()
        (folder / "state").write_bytes(b"nonsense" * 1000)
        seal_checkpoint(folder, {key: value for key, value in manifest.items() if key not in {"files", "schema"}})

    root = harmed_copy(name, tmp_path, vouch_for_nonsense)
    monkeypatch.setenv("MEMQOS_CACHE", str(root))
    notes = OnlyNotes()
    with pytest.raises(StoppedError), start(tmp_path / "log", progress=notes):
        pytest.fail("there is a machine")
    [told] = [note for note in notes.notes if name in note]
    assert told.startswith(f"the checkpoint '{name}' cannot be restored and is rebuilt: ")
    assert len(notes.steps) == 1
    assert not (root / "checkpoints" / name).exists()


def test_one_byte_that_fell_over_is_found_after_a_failure_in_the_machine(tmp_path, monkeypatch):
    """Between the samples, and with the file's time kept: a restore does not notice."""
    with start(tmp_path / "good") as machine:
        name = machine.provenance["checkpoint"]

    def flip(folder):
        ram = folder / "numa0.ram"
        times = ram.stat().st_atime_ns, ram.stat().st_mtime_ns
        ram.chmod(0o600)
        with ram.open("r+b") as file:
            # The last pages are unused, so this machine comes up all the same.
            file.seek(ram.stat().st_size - 5000)
            file.write(b"y")
        os.utime(ram, ns=times)

    root = harmed_copy(name, tmp_path, flip)
    monkeypatch.setenv("MEMQOS_CACHE", str(root))
    notes = Notes()
    with pytest.raises(MachineryError), start(tmp_path / "log", progress=notes):
        raise MachineryError("a shim was killed by SIGILL.")
    told = [note for note in notes.notes if name in note]
    assert len(told) == 1, told
    assert told[0].endswith("was checked in full: numa0.ram changed since its creation, so it is rebuilt.")
    assert not (root / "checkpoints" / name).exists()


MAKER = """
    import os, sys
    from pathlib import Path
    from memqos.catalog.profiles import load_profile
    from memqos.model.topology import Topology, TopologyNode
    from memqos.vm.boot import boot
    from memqos.vm.cache.store import default_cache

    node = TopologyNode(id=0, memory_bytes=(777 << 20), cpus=(0, 1))
    with boot(
        load_profile("trixie"),
        Topology(name="to-be-killed", cpus=2, numa_nodes=(node,)),
        image_cache=default_cache(os.environ),
        log_dir=Path(sys.argv[1]),
    ):
        pass
"""


def test_a_checkpoint_whose_creator_is_killed_leaves_nothing(tmp_path):
    root = cache_without_checkpoints(tmp_path)
    folder, environment = root / "checkpoints", {**os.environ, "MEMQOS_CACHE": str(root)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(MAKER), str(tmp_path)], env=environment) as maker:
        making = wait(
            "the machine boots",
            lambda: [path for path in folder.iterdir() if (path / "entry" / "numa0.ram").exists()],
            deadline=soon(),
        )
        maker.kill()
    wait("the checkpoint's folder is gone", lambda: not making[0].exists(), deadline=Deadline.after(10))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", range(RESTORES))
def test_a_restore_and_a_container_again_and_again(tmp_path, number):
    with start(tmp_path) as machine:
        assert run_container(machine).status == 0


def test_a_kept_machine_outlives_its_context_until_it_is_ended(tmp_path):
    options = {"image_cache": default_cache(os.environ), "log_dir": tmp_path, "keepable": True}
    with boot(load_profile("trixie"), load_topology("one-numa-node"), **options) as machine:
        kept = keep(machine)
        folders = machine.spec.qmp_socket.parent, machine.spec.disk.parent
    try:
        assert kept in list_kept(os.environ)
        assert os.system(f"{kept.shell} true </dev/null >/dev/null 2>&1") == 0  # noqa: S605 - it is a shell command
        # Another machine's start sweeps folders without an owner: not this one.
        with start(tmp_path / "other"):
            assert all(folder.exists() for folder in folders)
    finally:
        assert end_kept(kept.name, os.environ) == kept
    assert not Path(f"/proc/{kept.qemu}/exe").exists()
    assert not any(folder.exists() for folder in folders)
    assert kept not in list(list_kept(os.environ))
