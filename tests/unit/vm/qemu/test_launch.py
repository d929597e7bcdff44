"""A launch whose QEMU is a script: a broken boot is repeated."""

from dataclasses import replace
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.errors import AbortedError, MachineError
from memqos.vm.cache.store import Cache
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu.launch import Ingredients, launch
from memqos.vm.qemu.spec import Accelerator
from tests.golden.qemu.test_qemu_arguments import TWO_NUMA_NODES
from tests.progress import Notes

CRASH = "echo 'physmem.c: Assertion failed.' >&2; kill -ABRT $$"


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def launching(tmp_path, notes):
    """Enters a launch whose QEMU does this at its first start, and that afterwards; the number of starts."""

    def enter(first, afterwards, **changes):
        program, count = tmp_path / "qemu", tmp_path / "count"
        program.write_text(
            f"#!/bin/sh\necho x >>{count}\nif [ $(wc -l <{count}) = 1 ]; then {first}; else {afterwards}; fi\n"
        )
        program.chmod(0o755)
        (log_dir := tmp_path / "log").mkdir()
        ingredients = Ingredients(
            name="a-machine",
            qemu=Qemu(program=program, version=(10, 0, 2)),
            accelerator=Accelerator.TCG,
            topology=replace(TWO_NUMA_NODES.topology, swap=()),
            kernel=Path("/k"),
            initrd=Path("/i"),
            kernel_arguments=(),
            disk=tmp_path / "disk",
            identity=tmp_path / "id",
            known_hosts=tmp_path / "known",
            log_dir=log_dir,
            writes_through=True,
        )
        context = launch(
            ingredients, cache=Cache(root=tmp_path / "cache"), deadline=Deadline.after(20), progress=notes, **changes
        )
        with pytest.raises(MachineError) as caught, context:
            pytest.fail("no machine comes of a script")
        return caught.value, len(count.read_text().splitlines())

    return enter


def test_a_crash_before_the_first_output_is_noted_and_the_boot_repeated(launching, notes, tmp_path):
    error, starts = launching(CRASH, "echo 'no such disk' >&2; exit 1")
    assert starts == 2
    assert type(error) is MachineError
    assert "QEMU ended with status 1 and printed: no such disk" in error.what
    assert len(notes.notes) == 1
    assert "which is repeated: QEMU ended with status -6 and printed: physmem.c: Assertion failed." in notes.notes[0]
    assert (tmp_path / "log/aborted-qemu.log").read_text() == "physmem.c: Assertion failed.\n"


def test_what_the_crash_left_of_a_checkpoint_is_gone_when_it_starts_again(launching, tmp_path):
    (saving := tmp_path / "made/entry").mkdir(parents=True)
    seen = tmp_path / "seen"
    launching(f"echo old >{saving}/numa0; {CRASH}", f"ls {saving} >{seen}; exit 1", saving=saving)
    assert "numa0" not in seen.read_text()


def test_a_third_crash_is_the_machines_failure(launching, notes):
    error, starts = launching(CRASH, CRASH)
    assert (type(error), starts, len(notes.notes)) == (AbortedError, 3, 2)


@pytest.mark.parametrize(
    "first", ["exit 1", "kill -KILL $$", f"echo Linux >{{log}}/serial.log; {CRASH}"], ids=["refuses", "killed", "spoke"]
)
def test_any_other_end_is_the_machines_failure_at_once(first, launching, notes, tmp_path):
    error, starts = launching(first.format(log=tmp_path / "log"), "exit 1")
    assert (type(error), starts, notes.notes) == (MachineError, 1, [])
