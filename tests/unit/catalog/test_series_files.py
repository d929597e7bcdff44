"""Series in their usual forms: headers, units, times, separators, and rejected files."""

import pytest

from memqos.catalog.series_files import Choice, Column, series_in
from memqos.engine.cgroup.throttle_series import Sample
from memqos.errors import UsageError

MIB = 1 << 20


def read(*lines, **choice):
    return series_in("\n".join(lines) + "\n", where="s.csv", choice=Choice(**choice))


def amounts(series):
    return [(one.at, one.usage, one.high_events) for one in series.samples]


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("elapsed,current,high_events", "1.5,2097152,3", (1.5, 2 * MIB, 3)),
        ("elapsed_s,memory.current (MiB),memory.events.high", "1.5,2,3", (1.5, 2 * MIB, 3)),
        ("time;usage_mi;events_high", "1,5;2;3", (1.5, 2 * MIB, 3)),
        ("t,memoryCurrentBytes,high_events", "1.5,2097152,3", (1.5, 2 * MIB, 3)),
        ("t\tmemoryCurrent_kib\tevt_high", "1.5\t2048\t3", (1.5, 2 * MIB, 3)),
        ("t | used | high", "1.5 | 2Mi | 3", (1.5, 2 * MIB, 3)),
        ("seconds mem_mb nhigh", "1.5 2 3", (1.5, 2_000_000, 3)),
        ("time_ms,memory_usage_bytes,memory_high_events", "1500,2097152,3", (1.5, 2 * MIB, 3)),
        ('"Time (s)","Memory Current","High Events"', '"1.5","2.0MiB","3"', (1.5, 2 * MIB, 3)),
        ("time,memory_current,high", "1.5s,2M,3", (1.5, 2_000_000, 3)),
        ("time,memory_current,high", "0:0:01.5,2 MB,3", None),
    ],
)
def test_headers_and_units(header, row, expected):
    if expected is None:
        with pytest.raises(UsageError, match=r"s\.csv:2: '0:0:01\.5' in column 'time' is not a time"):
            read(header, row)
        return
    assert amounts(read(header, row)) == [expected]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("2026-06-08T16:49:03-04:00", "2026-06-08T20:49:05Z"),
        ("2026-06-08 16:49:03", "2026-06-08 16:49:05"),
        ("2026/06/08 16:49:03.5", "2026/06/08 16:49:05.5"),
        ("1780000000", "1780000002"),
        ("1780000000000", "1780000002000"),
        ("1780000000000000", "1780000002000000"),
        ("1780000000000000000", "1780000002000000000"),
        ("23:59:59", "00:00:01"),
    ],
)
def test_calendar_times_are_relative_to_the_first(first, then):
    series = read("timestamp,current,high_events", f"{first},{MIB},0", f"{then},{MIB},17")
    assert [round(one.at, 6) for one in series.samples] == [0, 2]


def test_a_relative_time_is_preferred_to_a_calendar_time():
    assert amounts(read("timestamp,elapsed,current,high_events", f"1780000000,7.5,{MIB},0")) == [(7.5, MIB, 0)]


def test_comments_blank_lines_and_repeated_headers_are_skipped():
    series = read("# made by hand", "", "time,current,high_events", f"1,{MIB},0", "# half", "time,current,high_events",
                  f"2,{MIB},17")  # fmt: skip
    assert amounts(series) == [(1, MIB, 0), (2, MIB, 17)]


def test_the_header_may_be_a_comment_and_the_file_may_begin_with_a_mark():
    assert amounts(read("\ufeff# about", "# time current high_events", f"1 {MIB} 0")) == [(1, MIB, 0)]


def test_all_known_columns_of_memory_events_and_memory_stat():
    series = read(
        "time,current,low,high,max,oom,oom_kill,anon,file,pgmajfault", f"1,{MIB},0,17,2,3,4,{MIB},4096,5",
        f"2,{MIB},0,34,2,3,4,{MIB},4096,5",
    )  # fmt: skip
    assert series.samples[0] == Sample(
        at=1, usage=MIB, high_events=17, max_events=2, oom_kills=4, anon=MIB, file=4096, majfaults=5
    )
    assert (series.high, series.limit) == (None, None)


@pytest.mark.parametrize(
    ("header", "row", "high", "limit"),
    [
        ("memory_high_bytes,memory_max_bytes,evt_high", "1048576,2097152,0", MIB, 2 * MIB),
        ("memory.high,memory.max,high", "1Mi,max,0", MIB, 0),
        ("high,max,high_events", "1048576,2097152,0", MIB, 2 * MIB),
        ("high,max,high_events", "max,max,0", 0, 0),
        ("high,max", "5,7", None, None),
        ("memory_high_mi,limit_gi,events_high", "1,2,0", MIB, 2 << 30),
    ],
)
def test_memory_high_is_distinguished_from_its_counter(header, row, high, limit):
    series = read(f"time,current,{header}", f"1,{MIB},{row}", f"2,{MIB},{row}")
    assert (series.high, series.limit) == (high, limit)


def test_zero_and_empty_cells_at_the_end_are_a_removed_cgroup():
    series = read("time,current,high_events,anon", f"1,{MIB},0,{MIB}", "2,0,0,0", "3,,,")
    assert [one.gone for one in series.samples] == [False, True, True]
    series = read("time,current,high_events,anon", f"1,{MIB},0,{MIB}", f"2,{MIB // 4},17,0")
    assert [one.gone for one in series.samples] == [False, True]


def test_incomplete_rows_are_skipped_with_a_note():
    series = read("time,current,high_events", f"1,{MIB},0", f"1,{MIB},0", f",{MIB},0", f"2,{MIB},", f"3,{MIB},17")
    assert [one.at for one in series.samples] == [1, 3]
    assert series.notes == (
        "3 rows were left out: no time of their own, or memory.current without 'high' or the reverse",
    )


def test_decimal_units_have_a_note():
    assert read("time,current_mb,high_events", "1,2,0").notes == (
        "column 'current_mb' is read in units of 1000000 bytes",
    )
    assert read("time,current_mi,high_events", "1,2,0").resolution == MIB


def test_one_of_several_pods_and_a_range_of_time():
    rows = ("time,pod,current,high_events", f"1,a,{MIB},0", f"1,b,{2 * MIB},0", f"2,a,{MIB},17", f"2,b,{2 * MIB},0")
    assert [one.usage for one in read(*rows, pod="b").samples] == [2 * MIB, 2 * MIB]
    assert [one.at for one in read(*rows, pod="a", since=1.5).samples] == [2]
    assert [one.at for one in read(*rows, pod="a", until=1.5).samples] == [1]
    with pytest.raises(UsageError, match="samples of several pods: 'a', 'b'"):
        read(*rows)
    with pytest.raises(UsageError, match="no samples of 'c': it has 'a', 'b'"):
        read(*rows, pod="c")


def test_explicit_headers():
    series = read("when,bytes used,throttled", f"1,{MIB},5", headers={
        Column.TIME: "when", Column.USAGE: "bytes used", Column.HIGH_EVENTS: "throttled",
    })  # fmt: skip
    assert amounts(series) == [(1, MIB, 5)]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("1,36 737,0", "'36 737' in column 'current' is not an amount"),
        ("1;36,737;0", "'36,737' in column 'current' is not an amount"),
        ("1,1,0.5", "'0.5' in column 'high_events' is not a count"),
        ("1,1,-5", "'-5' in column 'high_events' is not a count"),
        ("1,-1,0", "'-1' in column 'current' is not an amount"),
        ("1,inf,0", "'inf' in column 'current' is not an amount"),
        ("1,1..2Mi,0", "'1..2Mi' in column 'current' is not an amount"),
        ("1,5ms,0", "'5ms' in column 'current' is not an amount"),
        ("yesterday,1,0", "'yesterday' in column 'time' is not a time"),
    ],
)
def test_ambiguous_and_invalid_cells_are_rejected(row, says):
    header = "time,current,high_events".replace(",", ";" if ";" in row else ",")
    with pytest.raises(UsageError, match="is not ") as caught:
        read(header, row)
    assert str(caught.value).startswith(f"s.csv:2: {says}.")


def test_a_cell_too_long_for_csv_is_rejected():
    with pytest.raises(UsageError, match=r"s\.csv:2: the line is not CSV"):
        read("time,current,high_events", f"1,{'9' * 200_000},0")


def test_headers_are_shown_shortened():
    with pytest.raises(UsageError, match=r"'c19', …\. Name it: --column 'time=HEADER'"):
        read(",".join(f"c{number}" for number in range(30)), "1")
