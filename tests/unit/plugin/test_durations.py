"""What cases are expected to take: what they took before, or what the same cases took on other systems."""

import pytest

from memqos.plugin.results.durations import expected_durations

DOWN = "requests/test_requests.py::test_request[update-down"


def test_what_a_case_took_itself_comes_before_what_it_took_elsewhere():
    found = expected_durations([f"{DOWN}]"], {f"{DOWN}]": 3.0, f"{DOWN}-bookworm]": 40.0})

    assert found.seconds == {f"{DOWN}]": 3.0}
    assert found.elsewhere == 0


@pytest.mark.parametrize(
    "other",
    [
        "-bookworm]", "-containerd+crun]", "-oci:crun]", "-crio+runc]", "-cri+special]", "-cgroupfs]",
        "-trixie-docker+runc-systemd]", "-round12]",
    ],
)  # fmt: skip
def test_a_case_that_ran_only_on_another_system_is_expected_to_take_as_long(other):
    found = expected_durations([f"{DOWN}]", f"{DOWN}-forky-containerd+runc]"], {f"{DOWN}{other}": 40.0})

    assert found.seconds == {f"{DOWN}]": 40.0, f"{DOWN}-forky-containerd+runc]": 40.0}
    assert found.elsewhere == 2


def test_of_several_systems_the_median_counts():
    before = {f"{DOWN}-bookworm]": 40.0, f"{DOWN}-forky]": 6.0, f"{DOWN}-trixie]": 5.0}

    assert expected_durations([f"{DOWN}]"], before).seconds == {f"{DOWN}]": 6.0}


def test_a_system_is_told_from_the_beginning_of_an_id_as_well_as_from_its_end():
    before = {"a/test_a.py::test_it[bookworm]": 4.0, "a/test_a.py::test_one[v1.36-bookworm-0.4]": 5.0}

    found = expected_durations(["a/test_a.py::test_it", "a/test_a.py::test_one[v1.36-0.4]"], before)

    assert found.seconds == {"a/test_a.py::test_it": 4.0, "a/test_a.py::test_one[v1.36-0.4]": 5.0}


@pytest.mark.parametrize("other", ["update-low]", "v1.36-update-down]", "update-down-pods+system]", "update-down-0.4]"])
def test_another_case_says_nothing(other):
    case = f"{DOWN}]"

    found = expected_durations([case], {case.replace("update-down]", other): 40.0, case.replace("requests", "x"): 4.0})

    assert (found.seconds, found.elsewhere) == ({}, 0)
