"""Analyses of invented series above memory.high; the public ones are in tests/unit/cli/test_analyze.py.

memory.high is 100 MiB, memory.max 120 MiB. At 110 MiB, 10 % above, a pass sleeps for 64 * 0.1^2 s, or 639 jiffies
of 1 ms; at 105 MiB 159. A pass counts 17 for each level.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.cgroup.throttle_analysis import Ending, analyse, analysis_document, analysis_text
from memqos.engine.cgroup.throttle_series import Course, Sample, Setup, levels_of, lives, segments, spans
from memqos.model.knob import Bytes

MIB, PAGE = 1 << 20, 4096
SETUP = Setup(high=Bytes(100 * MIB), limit=Bytes(120 * MIB), hz=1000)


def rows(*, begin=110 * MIB, count=30, every=1.3, passes=2, pages=2, levels=1, at=0.0, events=0, **more):
    """Samples of a steady program: so many passes and pages between two of them."""
    return [
        Sample(
            at=at + number * every,
            usage=begin + number * pages * PAGE,
            high_events=events + number * passes * 17 * levels,
            **{name: value(number) for name, value in more.items()},
        )
        for number in range(count)
    ]


def of(samples, setup=SETUP, **more):
    [found] = analyse(samples, setup, **more)
    return found


def courses(found):
    return [part.course for part in found.segments]


def test_a_pass_of_a_sleeping_task_takes_the_modelled_time():
    [part] = of(rows()).segments
    assert part.course is Course.SLEEPS
    assert (part.passes, round(part.kept, 6), part.majfaults) == (58, 1, None)
    assert (round(part.seconds_a_pass, 6), round(part.model, 3), round(part.ratio, 2)) == (0.65, 0.654, 0.99)
    assert round(part.over, 3) == 0.101
    assert part.why == "each pass takes 0.99 of the sleep that the kernel imposes"


def test_a_stretch_of_sleep_ends_where_the_sleep_has_doubled():
    at, slow = 0.0, []
    for number in range(60):
        usage = 105 * MIB + number * 50 * PAGE
        slow.append(Sample(at=at, usage=usage, high_events=17 * number))
        at += 1.05 * SETUP.sleep(usage)
    parts = of(slow).segments
    assert {part.course for part in parts} == {Course.SLEEPS}
    # Up to 0.32 s, to 0.64 s, to 1.28 s, and beyond.
    assert [round(SETUP.sleep(part.first), 2) for part in parts] == [0.16, 0.33, 0.65, 1.29]
    assert all(first.end == last.start for first, last in itertools.pairwise(parts))


@pytest.mark.parametrize(
    ("every", "course", "why"),
    [
        (
            0.9,
            Course.UNKNOWN,
            "a pass takes 0.69 of the sleep that the model gives one task: several tasks sleep in parallel",
        ),
        (2.6, Course.SLEEPS, "each pass takes 1.99 of its sleep: the program also works or waits"),
    ],
)
def test_passes_faster_than_one_task_can_sleep_are_not_judged(every, course, why):
    [part] = of(rows(every=every)).segments
    assert part.course is course
    assert part.why.startswith(why)


def test_few_passes_are_not_compared_with_the_model():
    [part] = of(rows(count=3)).segments
    assert (part.course, part.ratio, part.kept) == (Course.SLEEPS, None, None)
    assert part.why == "fewer than 5 passes: too few to compare with the model"


def test_below_idle_and_too_little_for_a_sleep():
    below = rows(begin=90 * MIB, passes=0, pages=0)
    little = rows(begin=101 * MIB, count=10, at=40.0)
    idle = rows(begin=110 * MIB, passes=0, pages=0, count=20, at=60.0, events=little[-1].high_events + 17)
    found = of([*below, *little, *idle])
    assert courses(found) == [Course.BELOW, Course.RECLAIMS, Course.IDLE]
    assert round(found.above, 1) == 44.7


def test_a_program_that_is_quiet_for_no_longer_than_it_sleeps_is_not_idle():
    quiet = rows(count=60, every=0.25, passes=0, pages=0)
    steps = [replace(one, high_events=17 * (number // 3)) for number, one in enumerate(quiet)]
    assert courses(of(steps)) == [Course.SLEEPS]


def test_growth_beyond_its_passes_was_below_the_floor():
    crossing = rows(begin=90 * MIB, count=2, passes=4, pages=15 * 256)
    assert courses(of(crossing)) == [Course.RECLAIMS]


def test_a_short_stretch_joins_the_one_before():
    little = rows(begin=101 * MIB, count=10)
    one = replace(little[-1], at=13.0, usage=102 * MIB, high_events=little[-1].high_events + 17)
    assert courses(of([*little, one])) == [Course.RECLAIMS]


# ---- thrashed text


def still(*, anon=None, majfault=10, usage=103 * MIB, count=40, **more):
    faults = {} if majfault is None else {"majfaults": lambda number: number * majfault}
    kept = {} if anon is None else {"anon": anon}
    return rows(begin=usage, pages=0, passes=15, every=1.0, count=count, **faults, **kept, **more)


def test_constant_anon_with_growing_pgmajfault_is_thrashed_text():
    found = of(still(anon=lambda _: 102 * MIB))
    assert courses(found) == [Course.THRASHES]
    assert found.segments[0].why == "anon is constant to the byte while pgmajfault grows by 10.0 a second"
    assert found.segments[0].kept == 0
    assert (found.end.ending, found.end.likely) == (Ending.THRASHES, None)
    assert found.end.why == "usage was constant up to the last sample, and the kernel does not kill for that"


def test_a_few_pages_of_anon_are_named():
    found = of(still(anon=lambda number: 102 * MIB + PAGE * (number % 3)))
    assert found.segments[0].why == "anon is constant within 8192 bytes while pgmajfault grows by 10.0 a second"


def test_without_anon_usage_must_be_constant_for_longer():
    assert courses(of(still(count=20))) == [Course.SLEEPS]
    found = of(still(count=90))
    assert courses(found) == [Course.THRASHES]
    assert found.segments[0].why == "usage is constant while pgmajfault grows by 10.0 a second"


def test_without_pgmajfault_it_is_an_interpretation():
    [part] = of(still(count=90, majfault=None)).segments
    assert part.course is Course.THRASHES
    assert part.why.startswith("an interpretation: usage is constant while passes continue; ")


def test_constant_usage_without_major_faults_is_not_thrashed_text():
    [part] = of(still(anon=lambda _: 102 * MIB, majfault=0)).segments
    assert part.course is Course.UNKNOWN
    assert part.why.endswith("pgmajfault does not grow: program text is not read again")


def test_reclaimed_page_cache_is_constant_without_a_due_sleep():
    [part] = of(still(usage=100 * MIB + 64 * PAGE, count=90)).segments
    assert part.course is Course.RECLAIMS
    assert part.why == "usage is constant above memory.high where no sleep is due: page cache is reclaimed"


def test_one_page_in_each_pass_is_growth():
    grows = rows(begin=103 * MIB, pages=15, passes=15, every=1.0, anon=lambda number: 102 * MIB + number * 15 * PAGE)
    assert Course.THRASHES not in courses(of(grows))


def test_it_may_thrash_for_a_while_and_grow_again():
    first = still(anon=lambda _: 102 * MIB, count=20)
    again = rows(
        begin=104 * MIB, count=9, every=1.0, passes=9, pages=20, at=20.0, events=first[-1].high_events + 17,
        anon=lambda number: 103 * MIB + number * 20 * PAGE, majfaults=lambda _: 190,
    )  # fmt: skip
    found = of([*first, *again])
    assert courses(found)[0] is Course.THRASHES
    assert courses(found)[-1] is Course.SLEEPS
    assert found.end.ending is Ending.OTHERWISE


def test_consecutive_constant_stretches_are_one():
    steps = still(anon=lambda number: 102 * MIB + 10 * PAGE * (number // 14))
    assert courses(of(steps)) == [Course.THRASHES]


def test_memory_that_varies_by_more_than_a_batch_is_not_constant():
    swings = still(anon=lambda number: 102 * MIB + PAGE * 100 * (number % 2))
    assert Course.THRASHES not in courses(of(swings))


# ---- ends


def test_a_counted_oom_kill_is_a_kill():
    grown = rows(begin=120 * MIB - 40 * PAGE, pages=0, oom_kills=lambda number: int(number == 29))
    assert (of(grown).end.ending, of(grown).end.why) == (Ending.KILLED, "oom_kill rose at memory.max")
    far = rows(oom_kills=lambda number: int(number == 29))
    assert of(far).end.why == "oom_kill rose far below memory.max: a limit above it, or the node, ran out of memory"
    counted = rows(oom_kills=lambda number: int(number == 29), max_events=lambda number: number)
    assert of(counted).end.why == "oom_kill rose at memory.max"
    no_max = of(counted, replace(SETUP, limit=None))
    assert (no_max.end.ending, no_max.end.left, no_max.end.way) == (Ending.KILLED, None, None)


def test_a_vanished_container_was_killed_if_memory_max_was_in_reach():
    samples = rows(begin=120 * MIB - 40 * PAGE, count=10)
    gone = Sample(at=14.0, usage=0, high_events=0, gone=True)
    assert of([*samples, gone]).end.ending is Ending.KILLED
    assert of(samples, ended=True).end.ending is Ending.KILLED
    assert of(samples).end.ending is Ending.UNKNOWN
    far = rows(count=10)
    assert of([*far, gone]).end.ending is Ending.OTHERWISE
    assert (
        of([*far, gone]).end.why == "the container ended when memory.max was out of reach: nothing was OOM-killed there"
    )
    assert of(far).end.ending is Ending.OTHERWISE


def test_passes_of_a_dying_task_are_not_sleep():
    samples = rows(begin=120 * MIB - 40 * PAGE, count=10)
    dying = replace(samples[-1], at=12.0, high_events=samples[-1].high_events + 170)
    gone = Sample(at=12.5, usage=0, high_events=0, gone=True)
    found = of([*samples, dying, gone])
    assert found.segments[-1].end == samples[-1].at
    assert found.end.ending is Ending.KILLED


def test_below_the_floor_the_largest_growth_decides_what_was_in_reach():
    small = rows(begin=30 * MIB, passes=0, pages=0)
    assert of(small, ended=True).end.ending is Ending.OTHERWISE
    fast = rows(begin=30 * MIB, passes=0, pages=2048, every=0.5, count=9)
    assert of(fast, replace(SETUP, limit=Bytes(101 * MIB)), ended=True).end.ending is Ending.KILLED
    free = Setup(high=None, limit=Bytes(100 * MIB))
    assert of(fast, free).end.ending is Ending.UNKNOWN
    assert of(small, free).end.ending is Ending.OTHERWISE
    assert courses(of(fast, free)) == [Course.BELOW]


def test_without_a_memory_max_the_end_is_unknown():
    found = of(rows(), replace(SETUP, limit=None))
    assert found.end.ending is Ending.UNKNOWN
    assert found.end.why == "memory.max is not set: the series does not show what ends the container"
    assert found.way is None


def test_the_remaining_sleep_at_the_pages_kept():
    end = of(rows()).end
    assert end.left == 120 * MIB - end.usage
    assert end.likely == 64 * end.way.least == end.way.most
    assert of(rows(pages=64, count=10)).end.likely == 2 * of(rows(pages=64, count=10)).end.way.least
    assert of(rows(count=2)).end.likely is None


def test_a_series_shorter_than_the_least_time_shows_no_kill():
    """From 110 to 120 MiB it is 40 batches of at least 0.64 s, and of 2 s from 117.7 MiB on."""
    found = of(rows(count=10))
    assert found.is_too_short
    assert found.above < 12
    assert 40 < found.way.least < 80
    assert not of(rows(count=100)).is_too_short


# ---- samples


def test_a_new_cgroup_begins_where_the_counter_falls_or_after_it_was_gone():
    gone = [Sample(at=40.0 + number, usage=0, high_events=0, gone=True) for number in range(2)]
    first, then, last = rows(), rows(at=50.0), rows(at=100.0, count=5)
    assert [len(one) for one in lives([*first, *gone, *then, *last])] == [31, 30, 5]
    assert lives(gone) == []
    found = analyse([*first, *gone, *then, *last], SETUP, ended=True)
    assert [one.end.why.split(" when")[0] for one in found] == [
        "the container ended", "the series stops", "the container ended",
    ]  # fmt: skip


def test_fewer_than_two_samples_have_no_analysis():
    assert analyse(rows(count=1), SETUP) == ()
    assert analyse([], SETUP) == ()
    assert analysis_text(()) == "Fewer than two samples of a container: no verdict."


def test_times_rise():
    with pytest.raises(ValueError, match="must rise"):
        analyse([*rows(count=2), *rows(count=2)], SETUP)


def test_no_samples_have_no_spans():
    assert segments([], SETUP) == []
    assert spans(rows(count=1), SETUP) == []


def test_a_memory_high_of_zero_counts_as_one_page():
    setup = Setup(high=Bytes(0), limit=None)
    assert (setup.over(3 * PAGE), setup.over(0)) == (3.0, 0.0)
    assert Setup(high=None, limit=None).over(5) == Setup(high=None, limit=None).sleep(5) == 0.0
    assert Setup(high=None, limit=None).floor is None


@pytest.mark.parametrize(
    ("samples", "levels"),
    [
        (rows(), 1),
        (rows(levels=2, passes=1, every=0.65), 2),
        (rows(levels=2), 2),
        (rows(levels=3), 3),
        # Two passes between each two samples: the time distinguishes them from one pass of two levels.
        (rows(passes=2, every=1.3), 1),
        (rows(begin=90 * MIB, passes=2), 4),
        (rows(count=5), None),
        ([replace(one, high_events=one.high_events + number * number) for number, one in enumerate(rows())], None),
    ],
)
def test_the_number_of_levels_from_the_steps_of_high(samples, levels):
    if samples[0].usage < SETUP.high.count:
        assert levels_of(samples, SETUP) in {2, levels}
    else:
        assert levels_of(samples, SETUP) == levels


# ---- output


def test_text_and_document_agree():
    found = analyse(rows(), SETUP)
    text = analysis_text(found, ["a remark"]).splitlines()
    assert text[0] == "note: a remark"
    assert text[2] == "30 samples; memory.high 104857600, memory.max 125829120; 1 level, HZ 1000, pages of 4096 bytes"
    assert text[4].split() == [
        "from", "s", "to", "s", "over", "passes", "s/pass", "model", "ratio", "pages/pass", "majfault/s", "verdict",
    ]  # fmt: skip
    assert text[5].split() == [
        "1",
        "0.0",
        "37.7",
        "10.11",
        "%",
        "58",
        "0.6500",
        "0.6544",
        "0.99",
        "1.00",
        "-",
        "sleeps",
    ]
    assert "1: each pass takes 0.99 of the sleep that the kernel imposes" in text
    assert text[-2].startswith("  From 115343360 bytes to memory.max it is ")
    assert text[-1] == "  No kill at memory.max can be seen within that time: none was seen, and one may still come."
    document = analysis_document(found, ["a remark"])
    [run] = document["runs"]
    assert (document["memqos_format"], document["notes"]) == (1, ["a remark"])
    assert (run["verdict"], run["watchedLongEnough"], run["samples"]) == ("ended otherwise", False, 30)
    assert run["setup"] == {"high": 104857600, "max": 125829120, "levels": 1, "hz": 1000, "pageSize": 4096}
    [part] = run["segments"]
    assert (part["verdict"], part["passes"], part["pagesAPass"], part["ratio"]) == ("sleeps", 58, 1.0, 0.9933)


def test_text_of_an_unthrottled_series():
    free = Setup(high=None, limit=None, levels=2)
    text = analysis_text(analyse(rows(), free))
    assert "30 samples; memory.high max, memory.max max; 2 levels, HZ 250" in text
    assert text.endswith("\nnot observable: memory.max is not set: the series does not show what ends the container.")
    [run] = analysis_document(analyse(rows(), free))["runs"]
    assert (run["setup"]["high"], run["setup"]["max"], run["end"]["left"], run["leastMilliseconds"]) == (None,) * 4


def test_text_of_a_long_series_and_of_several():
    long = rows(count=100)
    text = analysis_text(analyse([*long, *rows(at=200.0, begin=99 * MIB, count=9)], SETUP))
    assert "cgroup 1 of 2: 100 samples" in text
    assert "cgroup 2 of 2: 9 samples" in text
    assert "  That is less than the longest way takes: none was seen, and one may still come." in text
    even = Setup(high=Bytes(100 * MIB), limit=Bytes(100 * MIB))
    text = analysis_text(analyse(rows(begin=90 * MIB, passes=0, pages=0), even))
    assert "10485760 below memory.max: no sleep is left up to there." in text
    ended = analysis_text(analyse(rows(begin=120 * MIB - 40 * PAGE, count=100, pages=0), SETUP, ended=True))
    assert "may still come" not in ended


def test_times_are_exact():
    assert isinstance(of(rows()).end.way.least, Fraction)
