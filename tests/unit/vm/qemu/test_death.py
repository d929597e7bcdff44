import pytest

from memqos.errors import RuntimeCallError
from memqos.vm.qemu.machine import cause_of_death, is_full_disk, oom_kills
from memqos.vm.qemu.qmp import Event


def cause(**changes):
    facts = {"disaster": None, "status": None, "said": "", "events": (), "oom_kills": 0}
    return cause_of_death(**{**facts, **changes})


def event(name, **data):
    return Event(name=name, data=data)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({}, None),
        ({"events": (event("RESUME"), event("BLOCK_IO_ERROR", nospace=False))}, None),
        ({"disaster": "the guest's kernel panicked: x", "status": 0}, "the guest's kernel panicked: x"),
        ({"status": 1, "said": "no such file"}, "QEMU ended with status 1 and printed: no such file"),
        ({"status": -9}, "QEMU ended with status -9"),
        ({"status": -9, "oom_kills": 1}, "the host ran out of memory and killed QEMU (status -9)"),
        ({"status": 1, "oom_kills": 1}, "QEMU ended with status 1"),
        (
            {"status": -7},
            "QEMU found no room for the guest's memory: the host's disk is full (status -7)",
        ),
        (
            {"events": (event("BLOCK_IO_ERROR", nospace=True), event("STOP"))},
            "the host's disk is full, so QEMU paused the guest",
        ),
        ({"events": (event("SHUTDOWN", guest=True),)}, "the guest stopped (SHUTDOWN {'guest': True})"),
    ],
)
def test_a_death_has_one_cause_and_the_worst_is_reported(facts, sentence):
    assert cause(**facts) == sentence


@pytest.mark.parametrize("text", ["write /var/lib/x: no space left on device", "tee: No space left on device"])
def test_a_full_disk_is_recognized_by_the_kernels_message(text):
    assert is_full_disk(RuntimeCallError(text))


def test_other_errors_are_not_a_full_disk():
    assert not is_full_disk(RuntimeCallError("no such container"))


def test_the_kernel_s_count_of_kills_is_read(tmp_path):
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 7\noom_kill 3\noom_kill_other 9\n")
    assert oom_kills(vmstat) == 3
    assert oom_kills(tmp_path / "missing") == 0
