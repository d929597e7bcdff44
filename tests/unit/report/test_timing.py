"""Durations of requests in the bundle and the summary."""

import dataclasses

from memqos.report import summary
from memqos.report.summary import Timing, timing_text
from tests.unit.report.sample import BUNDLE


def timed() -> Timing:
    timing = Timing()
    for method, seconds in [("StartContainer", 1.0), ("start", 4.0), ("ContainerStart", 2.5), ("update", 0.25)]:
        timing.add(method, seconds)
    timing.add("ContainerStatus", 9.0)
    return timing


def test_steps_are_counted_by_the_names_of_cri_oci_and_docker():
    assert timed().told() == {
        "start": {"count": 3, "median": 2.5, "longest": 4.0},
        "update": {"count": 1, "median": 0.25, "longest": 0.25},
    }


def test_a_machine_without_requests_has_no_timing():
    assert Timing().told() == {}


def test_the_summary_has_a_line_for_each_machine_that_was_timed():
    machine = {**BUNDLE.machines[0], "timing": timed().told()}
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, machines=(machine,)), results_folder="r"))
    assert "timing (medians, for information):" in lines
    assert f"  {machine['id']}: start 2.50 s (3), update 0.25 s (1)" in lines
    machine |= {"runtime": "oci:crun", "driver": "cgroupfs"}
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, machines=(machine,)), results_folder="r"))
    assert f"  {machine['id']} (oci:crun cgroupfs): start 2.50 s (3), update 0.25 s (1)" in lines
    assert timing_text({}) == ""


def test_the_summary_has_the_memory_of_each_runtime():
    overhead = {"beside": 1 << 20, "starting": 10 << 20, "monitors": 2, "monitor": 12 << 20}
    machine = {**BUNDLE.machines[0], "id": "main-0", "runtime": "crio+crun", "driver": "systemd", "overhead": overhead}
    lines = list(summary.summary_lines(dataclasses.replace(BUNDLE, machines=(machine,)), results_folder="r"))
    assert lines[lines.index("memory of the runtime itself (for information):") + 1] == (
        "  main-0 (crio+crun systemd): 1.0 MiB in the pod outside of its container, "
        "at most 10.0 MiB in a container until its process ran, 12.0 MiB per shim or monitor"
    )
