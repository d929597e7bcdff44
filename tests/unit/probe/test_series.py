import pytest

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.errors import CgroupFileError, DeadlineError
from memqos.model.path import CgroupPath
from memqos.model.reading import Reading
from memqos.probe import conditions
from memqos.probe.series import Condition, watch
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FakeCgroups
from memqos.target.fake import FakeTarget

APP = CgroupPath.parse("/app")


class StepClock:
    """A clock that only sleeping moves; at each sleep it lets the next thing happen."""

    def __init__(self) -> None:
        self.at = 100.0
        self.happenings: list[tuple[str, str]] = []
        self.cgroups = FakeCgroups()
        self.cgroups.make(APP)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += max(seconds, 0.0)
        if self.happenings:
            name, text = self.happenings.pop(0)
            if name:
                self.cgroups.show(APP, name, text)
            else:
                self.cgroups.remove(APP)

    @property
    def tree(self) -> CgroupTree:
        return CgroupTree(FakeTarget(commands=self.cgroups.commands()), FAKE_HIERARCHY)

    def deadline(self, seconds: float) -> Deadline:
        return Deadline.after(seconds, self)


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


def events(high: int) -> str:
    return f"low 0\nhigh {high}\nmax 0\noom 0\noom_kill 0\n"


def pressure(total: int) -> str:
    line = "avg10=0.00 avg60=0.00 avg300=0.00"
    return f"some {line} total={total}\nfull {line} total=0\n"


def test_it_watches_until_a_condition_holds_and_keeps_every_reading(clock: StepClock) -> None:
    clock.happenings = [("memory.events", events(1)), ("memory.events", events(5))]
    seen: list[Reading] = []
    series = watch(
        clock.tree,
        [APP],
        deadline=clock.deadline(60),
        until=[conditions.event_rises(APP, "high", by=5)],
        every=0.5,
        record=seen.append,
    )
    assert series.met == "high of /app/memory.events rises by 5 or more"
    assert tuple(seen) == series.readings
    assert [offset for offset, _ in series.texts(APP, "memory.events")] == [0.0, 0.5, 1.0]
    assert series.seconds == 1.0
    assert series.require() is series


def test_what_does_not_come_true_is_no_error_until_it_is_required(clock: StepClock) -> None:
    series = watch(
        clock.tree, [APP], deadline=clock.deadline(1), until=[conditions.usage_at_least(APP, 4096)], every=0.4
    )
    assert series.met == ""
    assert [offset for offset, _ in series.texts(APP, "memory.current")] == pytest.approx([0.0, 0.4, 0.8, 1.0])
    with pytest.raises(DeadlineError, match=r"waited 1\.0 s for '/app/memory\.current is 4096 bytes or more'"):
        series.require()


def test_what_is_true_at_the_deadline_counts(clock: StepClock) -> None:
    clock.happenings = [("", ""), ("", "")]
    clock.happenings = [("memory.current", "0\n"), ("memory.current", "8192\n")]
    series = watch(
        clock.tree, [APP], deadline=clock.deadline(1), until=[conditions.usage_at_least(APP, 8192)], every=0.5
    )
    assert series.met == "/app/memory.current is 8192 bytes or more"


def test_without_conditions_it_watches_until_the_deadline(clock: StepClock) -> None:
    series = watch(clock.tree, [APP], deadline=clock.deadline(2), every=1.0)
    assert len(series.readings) == 3
    assert series.require() is series


def test_an_expired_deadline_still_gives_one_reading(clock: StepClock) -> None:
    assert len(watch(clock.tree, [APP], deadline=clock.deadline(0)).readings) == 1


def test_the_first_condition_that_holds_is_named(clock: StepClock) -> None:
    always = Condition(name="always", holds=lambda _: True)
    never = Condition(name="never", holds=lambda _: False)
    series = watch(clock.tree, [APP], deadline=clock.deadline(5), until=[never, always])
    assert series.met == "always"
    assert series.awaited == ("never", "always")


def test_stall_time_counts_from_the_first_reading(clock: StepClock) -> None:
    clock.cgroups.show(APP, "memory.pressure", pressure(500))
    clock.happenings = [("memory.pressure", pressure(599)), ("memory.pressure", pressure(600))]
    series = watch(clock.tree, [APP], deadline=clock.deadline(60), until=[conditions.pressure_rises(APP, by_us=100)])
    assert len(series.readings) == 3
    assert conditions.pressure_of(series.last, APP).some.total == 600


def test_usage_settles(clock: StepClock) -> None:
    clock.happenings = [("memory.current", f"{amount}\n") for amount in (0, 9000, 9100, 9000, 9050)]
    settled = conditions.settles(APP, within=100, readings=3)
    series = watch(clock.tree, [APP], deadline=clock.deadline(60), until=[settled])
    assert conditions.usage(series.last, APP) == 9000
    assert len(series.readings) == 5


def test_the_end_of_a_cgroup_is_a_condition_and_no_other_condition_trips_over_it(clock: StepClock) -> None:
    clock.happenings = [("memory.current", "4096\n"), ("", "")]
    rises = conditions.event_rises(APP, "oom_kill")
    series = watch(clock.tree, [APP], deadline=clock.deadline(60), until=conditions.gone_or(rises, APP))
    assert series.met == "/app is gone"


def test_a_cgroup_that_never_was_does_not_end(clock: StepClock) -> None:
    clock.cgroups.remove(APP)
    series = watch(clock.tree, [APP], deadline=clock.deadline(1), until=[conditions.gone(APP)])
    assert series.met == ""


def test_a_counter_that_was_not_observed_is_no_zero(clock: StepClock) -> None:
    reading = clock.tree.read_cgroups([APP], ["memory.current"], deadline=clock.deadline(1))
    with pytest.raises(CgroupFileError, match="it was not read"):
        conditions.counter(reading, APP, "memory.events", "high")
