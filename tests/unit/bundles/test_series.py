"""Changes over time become columns: every value at every time, infinite limits without a line, events as marks."""

from memqos.bundles.evidence import MOST_POINTS, CaseEvidence, charts_of
from tests.recorded import TRIXIE


def look(at, why="clock", folder="/sys/fs/cgroup/kubepods/pod1", **files):
    return {
        "at": at,
        "folder": folder,
        "why": why,
        "files": {name.replace("_", "."): text for name, text in files.items()},
    }


def test_a_value_holds_until_the_next_change():
    looks = [
        look(100.0, why="new", memory_max="max\n", memory_high="4096\n", memory_current="0\n"),
        look(100.5, memory_current="8192\n"),
        look(101.0, memory_high="max\n"),
    ]

    (chart,) = charts_of(looks)

    assert chart["cgroup"] == "/kubepods/pod1"
    assert chart["times"] == [0.0, 0.5, 1.0]
    assert chart["columns"] == {"memory.current": [0.0, 8192.0, 8192.0], "memory.high": [4096.0, 4096.0, None]}


def test_usage_is_by_kind_and_by_numa_node_and_pressure_in_percent():
    looks = [
        look(1.0, memory_stat="anon 4096\nfile 8192\nkernel 7\n"),
        look(2.0, memory_numa_stat="x"),
        {"at": 3.0, "folder": "/sys/fs/cgroup/kubepods/pod1", "why": "event", "files": {
            "memory.numa_stat": "anon N0=1 N1=2\nfile N0=3 N1=4\nkernel_stack N0=9 N1=9\n",
            "memory.pressure": "some avg10=1.50 avg60=0.10 avg300=0.00\nfull avg10=0.25 avg60=0\n",
        }},
    ]  # fmt: skip

    (chart,) = charts_of(looks)

    assert chart["columns"]["anon"] == [4096.0, 4096.0, 4096.0]
    assert chart["columns"]["file"] == [8192.0, 8192.0, 8192.0]
    assert chart["columns"]["anon N1"] == [None, None, 2.0]
    assert chart["columns"]["some"] == [None, None, 1.5]
    assert chart["columns"]["full"] == [None, None, 0.25]
    assert "kernel_stack N0" not in chart["columns"]


def test_refaults_are_a_column_of_pages_if_there_are_any():
    looks = [
        look(1.0, memory_stat="anon 0\nworkingset_refault_anon 0\nworkingset_refault_file 0\n"),
        look(2.0, memory_stat="anon 0\nworkingset_refault_anon 0\nworkingset_refault_file 7\n"),
    ]

    (chart,) = charts_of(looks)

    assert chart["columns"] == {"anon": [0.0, 0.0], "refault file": [None, 7.0]}


def test_what_was_counted_since_the_last_look_is_a_mark():
    looks = [
        look(1.0, why="new", memory_events="high 3\noom_kill 0\n"),
        look(2.0, why="event", memory_events="high 10\noom_kill 1\n"),
        look(3.0, why="gone", memory_current=None),
    ]

    (chart,) = charts_of(looks)

    assert chart["marks"] == [
        {"at": 1.0, "what": "high +7"},
        {"at": 1.0, "what": "oom_kill +1"},
        {"at": 2.0, "what": "gone"},
    ]


def test_of_more_points_than_can_be_seen_some_are_kept_and_all_that_had_events():
    looks = [look(float(at), memory_current=f"{at}\n") for at in range(4 * MOST_POINTS)]
    looks[4001] = look(4001.0, memory_current="4001\n", memory_events="oom_kill 1\n")

    (chart,) = charts_of(looks)

    assert len(chart["times"]) <= MOST_POINTS + 2
    assert 4001.0 in chart["times"]
    assert chart["times"][-1] == 4.0 * MOST_POINTS - 1
    assert chart["looks"] == 4 * MOST_POINTS


def test_only_requested_cgroups_and_their_relatives():
    looks = [look(float(at), folder=f"/sys/fs/cgroup/{name}", memory_current="1\n") for at, name in
             enumerate(["a", "a/b", "a/b/c", "d", "a", "a/b", "a/b/c", "d"])]  # fmt: skip

    assert [chart["cgroup"] for chart in charts_of(looks, frozenset({"/a/b"}))] == ["/a", "/a/b", "/a/b/c"]


def test_what_is_no_look_is_passed_over():
    odd = [
        {}, {"at": "x", "folder": "f", "files": {}}, {"at": 1, "folder": 3, "files": {}}, look(1.0, memory_max="NaN\n"),
        look(2.0, memory_max="inf\n", memory_stat="anon\nfile x\n", memory_numa_stat="anon <img>=3 N1=4\n"),
    ]  # fmt: skip

    assert [chart["columns"] for chart in charts_of(odd)] == [{}]


def test_a_recorded_case_has_a_chart_of_its_pod_and_container():
    folder = next((TRIXIE / "tests").glob("throttling*crossing*"))

    charts = charts_of(CaseEvidence(folder).lines("series.jsonl"))

    assert charts[0]["cgroup"].endswith(".slice")
    (app,) = (chart for chart in charts if "memory.high" in chart["columns"])
    assert app["cgroup"].endswith(".scope")
    assert {"memory.current", "anon", "file", "memory.max", "some", "full"} <= set(app["columns"])
    assert max(value or 0 for value in app["columns"]["memory.high"]) == 62074880
    assert any(mark["what"].startswith("high +") for mark in app["marks"])


def pressed(at, *totals, average="9.00"):
    """A sample of the total time for which some and all tasks had waited for memory, in µs."""
    lines = zip(("some", "full"), totals, strict=False)
    return look(at, memory_pressure="".join(f"{kind} avg10={average} avg60=0 total={total}\n" for kind, total in lines))


def test_pressure_is_the_share_of_time_by_the_kernels_total_and_not_its_average():
    looks = [pressed(10.0, 1000, 0), pressed(11.0, 251000, 100000), pressed(13.0, 251000, 100000)]

    (chart,) = charts_of(looks)

    assert chart["pressure"] == "share of the half second before"
    assert chart["columns"]["some"] == [None, 25.0, 0.0]
    assert chart["columns"]["full"] == [None, 10.0, 0.0]


def test_a_sample_without_the_file_counts_no_stall():
    (chart,) = charts_of([pressed(0.0, 0), pressed(1.0, 500000), look(2.0, memory_current="1\n")])

    assert chart["columns"]["some"] == [None, 50.0, 0.0]


def test_close_samples_are_counted_over_half_a_second():
    looks = [pressed(0.0, 0), pressed(0.5, 0), pressed(0.75, 100000), pressed(1.0, 100000), pressed(1.001, 101000)]

    (chart,) = charts_of(looks)

    assert chart["columns"]["some"] == [None, 0.0, 13.333, 20.0, 20.16]


def test_a_total_that_began_anew_or_a_clock_that_was_set_is_no_share_of_time():
    (chart,) = charts_of([pressed(0.0, 900000), pressed(1.0, 0), pressed(2.0, 5_000_000)])

    assert chart["columns"]["some"] == [None, 0.0, 100.0]


def test_without_a_total_pressure_is_the_kernels_average():
    (chart,) = charts_of(
        [look(0.0, memory_pressure="some avg10=1.50\n"), look(1.0, memory_pressure="some avg10=2.00\n")]
    )

    assert chart["pressure"] == "share of time, last 10 s"
    assert chart["columns"]["some"] == [1.5, 2.0]
