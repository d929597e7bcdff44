"""The time base in a migration stream of pseries, by the format of QEMU's migration/savevm.c and hw/ppc/spapr.c."""

import platform
import struct
import time

import pytest

from memqos.errors import MachineError
from memqos.vm.qemu import time_base
from memqos.vm.qemu.time_base import Moment, Timely, host_ticks, moved, reads_host_ticks, ticks_when_stopped

WALL = 1_764_460_800_000_000_000


def stream(base=5000, wall=WALL, *, version=3, copies=1):
    """A full section (type 4) of the machine between others."""
    head = b"\x04" + struct.pack(">I", 17) + b"\x05spapr" + struct.pack(">II", 0, version)
    return b"QEVM\0\0\0\x03" + (head + struct.pack(">Qq", base, wall)) * copies + b"\x7e\x04\0\0\0\x12\x09spapr/htab"


@pytest.mark.parametrize(
    ("base", "ticks", "then"),
    [(5000, 0, 5000), (5000, 7, 5007), (5000, -5001, 2**64 - 1), (2**64 - 1, 1, 0), (2**63, 2**40, 2**63 + 2**40)],
)
def test_the_time_base_is_moved_and_nothing_else(base, ticks, then):
    assert moved(stream(base), ticks) == stream(then)


@pytest.mark.parametrize("state", [b"", stream(version=2), stream(copies=2), stream(copies=0), stream()[:40]])
def test_a_state_without_a_time_base_is_refused(state):
    with pytest.raises(MachineError, match="time bases of pseries instead of one"):
        moved(state, 1)


def test_the_ticks_of_the_stop_lie_between_two_moments():
    before, after = Moment(ticks=1000, wall=WALL - 300), Moment(ticks=9000, wall=WALL + 100)
    assert ticks_when_stopped(stream(), before, after) == 7000
    restarted = Moment(ticks=200, wall=WALL + 100)
    assert ticks_when_stopped(stream(), before, restarted) == 400


@pytest.mark.parametrize(("before", "after"), [(WALL + 1, WALL + 9), (WALL - 9, WALL - 1), (WALL, WALL)])
def test_a_state_of_another_moment_is_refused(before, after):
    with pytest.raises(MachineError, match="was saved at 1764460800000000000 ns, not between"):
        ticks_when_stopped(stream(), Moment(ticks=1, wall=before), Moment(ticks=9, wall=after))


def test_a_state_is_moved_to_the_moment_at_which_it_continues(monkeypatch):
    # Four ticks a ns; loading takes 3 s, and QEMU is asked 0.1 s before.
    began, now = Moment(ticks=10_000, wall=WALL), Moment(ticks=50_000, wall=WALL + 10_000)
    timely = Timely.of(stream(base=700), 200, began, now)
    assert timely.state == stream(base=700 - 200 + 50_000 + 12_000_000_000)
    assert timely.ticks == 50_000 + 11_600_000_000
    for ticks, due in [(timely.ticks - 1, False), (timely.ticks, True)]:
        monkeypatch.setattr(time_base, "host_ticks", lambda ticks=ticks: ticks)
        assert timely.is_due() is due


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the host's ticks are read on x86-64 alone")
def test_the_hosts_ticks_go_on():
    first = host_ticks()
    assert first < host_ticks()
    moment = Moment.now()
    assert moment.ticks > first
    assert moment.wall <= time.time_ns()
    assert reads_host_ticks()


def test_a_host_that_forbids_own_code_or_is_another_has_none(monkeypatch):
    def forbid():
        raise PermissionError

    monkeypatch.setattr(time_base, "host_ticks", forbid)
    assert not reads_host_ticks()
    monkeypatch.setattr(time_base, "host_ticks", lambda: 1)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert not reads_host_ticks()
