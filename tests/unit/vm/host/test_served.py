"""The clock of the time that a host gives a process, on a made-up /proc."""

import os

import pytest

from memqos.vm.qemu.pulse import ServedTime
from tests.clocks import HandClock

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def clock():
    return HandClock(100.0)


@pytest.fixture
def served(tmp_path, clock):
    """A process 7 with two threads that did nothing yet, on a host with two CPUs."""
    tell(tmp_path, {"7": (0, 0), "8": (0, 0)})
    steal(tmp_path, 0)
    return ServedTime(7, proc=tmp_path, clock=clock)


def tell(proc, tasks, *, state="S"):
    """schedstat of each thread: seconds run, seconds waited; and the state of all of them."""
    for name, (ran, waited) in tasks.items():
        folder = proc / "7" / "task" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"{ran * 10**9:.0f} {waited * 10**9:.0f} 12\n")
        (folder / "stat").write_text(f"{name} (a (b) R) {state} 1 2 3\n")


def steal(proc, seconds):
    (proc / "stat").write_text(
        f"cpu  1 2 3 4 5 6 7 {seconds * TICKS:.0f} 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\ncpu1 1 2 3 4 5 6 7 0 0 0\nintr 5\n"
    )


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(({}, 0, 10.0), id="an idle guest wants no processor"),
        pytest.param(({"7": (10, 0)}, 0, 10.0), id="it ran all the time"),
        pytest.param(({"7": (1, 9)}, 0, 1.0), id="it waited for nine seconds, and ran for one"),
        pytest.param(({"7": (3, 5)}, 0, 5.0), id="it ran for three seconds, waited for five, and idled for two"),
        pytest.param(({"7": (0, 10)}, 0, 0.0), id="it waited all the time"),
        pytest.param(({"7": (10, 0), "8": (2, 8)}, 0, 2.0), id="a thread that runs may wait for the one that does not"),
        pytest.param(({"7": (0, 0), "8": (2, 8)}, 0, 2.0), id="the one that waits longest counts"),
        pytest.param(({"7": (0, 25)}, 0, 0.0), id="no more than what passed"),
        pytest.param(({"7": (30, 0)}, 0, 10.0), id="three processors are no three times"),
        pytest.param(({}, 16, 2.0), id="the host's own host was busy"),
        pytest.param(({"9": (0, 10)}, 0, 10.0), id="a thread that came in between"),
    ],
)
def test_what_counts(case, served, clock, tmp_path):
    """In ten seconds: the threads' work, the stolen time of two CPUs, and the counted time."""
    tasks, stolen, found = case
    clock.sleep(10)
    tell(tmp_path, tasks)
    steal(tmp_path, stolen)
    assert served.now() == pytest.approx(found)


def test_it_adds_up(served, clock, tmp_path):
    for second, found in ((1, 0.0), (2, 0.0), (3, 0.0)):
        clock.sleep(1)
        tell(tmp_path, {"7": (0, second)})
        assert served.now() == pytest.approx(found)
    clock.sleep(2)
    assert served.now() == pytest.approx(2.0)


def test_an_unfinished_wait_counts_too(served, clock, tmp_path):
    """The kernel adds it to a thread's wait when it runs again, all at once."""
    tell(tmp_path, {"7": (0, 0)}, state="R")
    for _ in range(6):
        clock.sleep(1)
        assert served.now() == pytest.approx(0.0)
    clock.sleep(1)
    tell(tmp_path, {"7": (0.5, 6.5)}, state="R")
    assert served.now() == pytest.approx(0.0)
    clock.sleep(1)
    tell(tmp_path, {"7": (1.5, 6.5)}, state="R")
    assert served.now() == pytest.approx(1.0)


def test_for_a_dead_process_all_time_counts(clock, tmp_path):
    served = ServedTime(7, proc=tmp_path, clock=clock)
    clock.sleep(3)
    assert served.now() == pytest.approx(3.0)


def test_a_kernel_without_schedstat(served, clock, tmp_path):
    (tmp_path / "7" / "task" / "7" / "schedstat").write_text("nothing\n")
    (tmp_path / "stat").write_text("cpu  1 2\n")
    clock.sleep(3)
    assert served.now() == pytest.approx(3.0)


def test_this_process_on_this_host():
    served = ServedTime(os.getpid())
    first = served.now()
    assert 0.0 <= first <= served.now()
