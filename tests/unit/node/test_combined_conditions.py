"""Combined conditions (any, all, one after another), as values and on the fake node."""

import pytest

from memqos.errors import DeadlineError, UsageError
from memqos.model.knob import Knob
from memqos.node import after, both, either, ended, rises
from memqos.node.behaviour import watch
from memqos.node.behaviour.conditions import Unfinished
from memqos.node.behaviour.watch import PendingConditions
from memqos.node.behaviour.watched_container import ContainerCondition
from tests.unit.node.fakes import Bench, kubelet, pod
from tests.unit.node.samples import EVENTS, events, sample

PREMISES = [Knob.MEMORY_MAX]


def seen(combined, *looks):
    """The number of the sample that fulfilled it, from 1; None if none did."""
    progress = Unfinished(combined)
    for number, look in enumerate(looks, 1):
        progress.see(lambda one, look=look: one in look)
        if progress.is_seen:
            return number
    return None


@pytest.mark.parametrize(
    ("combined", "looks", "number"),
    [
        (either("a", "b"), ["", "b"], 2),
        (either("a", "b"), ["", ""], None),
        (both("a", "b"), ["b", "", "a"], 3),
        (both("a", "b"), ["b", "b"], None),
        (after("a", "b"), ["a", "b"], 2),
        # An event from before, or from the same time, does not come after.
        (after("a", "b"), ["b", "a"], None),
        (after("a", "b"), ["ab"], None),
        (after("a", "b"), ["ab", "b"], 2),
        (after("a", "b", "c"), ["a", "c", "b", "", "c"], 5),
        (after(either("a", "b"), both("c", "d")), ["b", "d", "c"], 3),
        (both(either("a", "b"), after("c", "d")), ["ac", "d"], 2),
        (either(after("a", "b"), "c"), ["a", "c"], 2),
    ],
)
def test_parts_are_seen_as_they_are_put_together(combined, looks, number):
    assert seen(combined, *looks) == number


def test_a_combination_is_described_in_words():
    combined = both("a", either("b", after("c", "d")), both("e"))

    assert combined.in_words(str) == "a and (b or (c and later d)) and e"


def test_fulfilled_conditions_are_not_asked_again_and_later_ones_not_yet():
    asked = []
    progress = Unfinished(both("a", after("b", "c"), either("d", "e")))
    progress.see(lambda one: asked.append(one) or one in "ad")
    progress.see(lambda one: asked.append(one) or False)

    assert asked == ["a", "b", "d", "e", "b"]
    assert list(progress.unseen()) == ["b", "c"]


def test_nothing_cannot_be_waited_for():
    with pytest.raises(UsageError, match="no condition is given"):
        either()
    with pytest.raises(UsageError, match="needs a second condition"):
        after("a")


def test_a_container_is_watched_until_either_of_two_things_happens():
    bench, web = Bench(), pod("web")
    with bench.node.watched(web, kubelet(), rests_on=PREMISES) as container:
        bench.cgroups.show(container.path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        course = container.until(either(ended(), rises("memory.events", "high")))

    assert course.samples[-1].status.exit_code is None


def test_a_condition_on_one_container_after_one_on_another():
    bench, web, other = Bench(), pod("web"), pod("other")
    with bench.node.watched_pods([web, other], kubelet(), rests_on=PREMISES) as watch:
        one, two = watch.container("web"), watch.container("other")
        told = []
        high, sampling = rises("memory.events", "high"), bench.sampler.opened[-1]
        following = sampling.next

        def next_(*, seconds):
            """The second container is throttled once the first one's throttling was noticed."""
            if told == [] and high.holds(one.samples[-1]):
                told.append("first")
                bench.cgroups.show(two.path.parent, "memory.events", EVENTS.format(high=1, oom_kill=0))
            return following(seconds=seconds)

        sampling.next = next_
        bench.cgroups.show(one.path.parent, "memory.events", EVENTS.format(high=3, oom_kill=0))
        watch.until(after(one.sees(high), two.sees(high)))

    assert told == ["first"]
    assert high.holds(two.samples[-1])


def test_one_containers_conditions_may_hold_anothers():
    bench, web, other = Bench(), pod("web"), pod("other")
    with bench.node.watched_pods([web, other], kubelet(), rests_on=PREMISES) as watch:
        one, two = watch.container("web"), watch.container("other")
        bench.runtime.finish(two.handle, exit_code=0)
        one.until(either(rises("memory.events", "high"), two.sees(ended())))

    assert ended().holds(two.samples[-1])
    assert not ended().holds(one.samples[-1])


def test_a_timeout_names_the_conditions_and_the_pending_ones(monkeypatch):
    monkeypatch.setattr(watch, "WATCH_SECONDS", 0.01)
    bench, web = Bench(), pod("web")
    with (
        bench.node.watched(web, kubelet(), rests_on=PREMISES) as container,
        pytest.raises(DeadlineError) as caught,
    ):
        container.until(after(rises("memory.events", "high"), either(ended(), rises("memory.events", "max"))))

    expected = "memory.events high rises and later (the container has ended or memory.events max rises)"
    assert caught.value.data["condition"] == expected


def test_a_condition_without_a_container_is_rejected_with_a_hint():
    bench, web = Bench(), pod("web")
    with (
        bench.node.watched_pods([web], kubelet(), rests_on=PREMISES) as watch,
        pytest.raises(UsageError, match=r"the condition 'the container has ended' names no container"),
    ):
        watch.until(either(ended()))


class Seen:
    """A container with these samples."""

    def __init__(self, key, *samples):
        self.key = key
        self.samples = list(samples)
        self.has_ended = self.work_is_done = self.was_broken = self.was_outside = False


def test_samples_delivered_together_count_in_order_of_time():
    """An earlier event in another container does not come after, though it is delivered at the same time."""
    high = rises("memory.events", "high")
    one, two = Seen("one", sample(events(high=1), at=2.0)), Seen("two", sample(events(high=1), at=1.0))
    waiting = PendingConditions([after(ContainerCondition(one, high), ContainerCondition(two, high))])

    assert not waiting.is_over()
    two.samples.append(sample(events(high=1), at=3.0))
    assert waiting.is_over()
