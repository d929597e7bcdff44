"""The effect of a plan's memory.high on growing programs, with literal amounts.

A container with 64 MiB of request and 200 MiB of limit: the formula of 1.22 gives it 160 MiB, that of 1.27 186.4 MiB.

The ranges are those of the containers of two public series of measurements, whose every run that came to its end lies
within: github.com/sohankunkerkar/kep-2570-memoryqos-benchmarks (request 256Mi, limit 512Mi; factor 0.8 killed 530 s
after memory.high, 0.9 13 to 20 s) and github.com/QiWang19/kep-2570-memoryqos-benchmarks (request 128Mi, factor 0.9).
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from memqos.engine.cgroup.throttle import duration, slowing, slowing_document, slowing_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import CgroupDriver
from tests.unit.engine.pods import NODE, ON, container, pod

WEB = pod(container({"memory": "64Mi"}, {"memory": "200Mi"}), name="web")
BARE = pod(container(), name="bare")


def found(*pods, release, settings=ON, **kernel):
    kubelet = Kubelet.of(node=NODE, settings=settings, release=release, driver=CgroupDriver.SYSTEMD)
    return slowing(expect(pods, kubelet), **kernel)


def test_the_formula_of_1_22_stalls_a_program_long_before_its_limit():
    [web] = found(WEB, release="1.22")
    assert (str(web.subject), web.high) == ("container c of pod default/web", 167772160)
    assert (web.sleeps_from, web.stalls_from, web.end) == (170070016, 197431296, 209715200)
    assert web.stalls
    assert int(web.least_seconds) == 169


def test_with_the_formula_of_1_27_it_reaches_its_limit_within_seconds():
    [web] = found(WEB, release="1.27")
    assert (web.high, web.stalls, int(web.least_seconds)) == (195452928, False, 5)


@pytest.mark.parametrize(
    ("factor", "sizes", "high", "least", "most"),
    [
        ("0.6", ("256Mi", "512Mi"), 429494272, "7 min 10 s", "7 h 39 min"),
        ("0.8", ("256Mi", "512Mi"), 483180544, "52.5 s", "56 min 1 s"),
        ("0.9", ("256Mi", "512Mi"), 510025728, "5.5 s", "5 min 52 s"),
        ("0.9", ("128Mi", "8Gi"), 7744360448, "13 min 21 s", "14 h 15 min"),
        ("0.9", ("128Mi", "14Gi"), 13542567936, "23 min 54 s", "25 h 30 min"),
    ],
)
def test_the_time_to_memory_max_is_between_one_and_all_pages_kept(factor, sizes, high, least, most):
    request, limit = sizes
    measured = pod(container({"memory": request}, {"memory": limit}), name="measured")
    [row] = found(measured, release="1.36", settings=replace(ON, throttling_factor=Fraction(factor)))
    assert row.high == high
    assert (duration(row.least_seconds), duration(row.most_seconds)) == (least, most)
    assert row.most_seconds == 64 * row.least_seconds
    end = f"  ends at memory.max {row.end}, if it keeps growing: after {least} to {most} of sleep"
    assert end in slowing_text((row,)).splitlines()


def test_a_kernel_of_1000_hz_rounds_its_sleeps_less():
    """Jiffies of 4 ms lose up to 4 ms of each sleep, and one that the timer may take off: 430.680 against 432.226."""
    measured = pod(container({"memory": "256Mi"}, {"memory": "512Mi"}), name="measured")
    settings = replace(ON, throttling_factor=Fraction("0.6"))
    [debian] = found(measured, release="1.36", settings=settings)
    [fedora] = found(measured, release="1.36", settings=settings, hz=1000)
    assert (debian.hz, float(debian.least_seconds)) == (250, 430.68)
    assert (fedora.hz, float(fedora.least_seconds)) == (1000, 432.226)
    assert debian.sleeps_from - fedora.sleeps_from == 249856


def test_a_batch_has_64_pages_of_any_size():
    [row] = found(WEB, release="1.22", page_size=65536)
    assert row.batch == 4 << 20
    assert "  stalls from 197459968 on: 4096 KiB in 2 s" in slowing_text((row,)).splitlines()


def test_the_third_case_has_no_end():
    text = slowing_text(found(WEB, release="1.22"))
    assert "A third case never ends" in text
    assert "Then anon does not change, pgmajfault rises, and\nnothing is killed." in text


def test_without_a_memory_max_it_stalls_and_never_ends():
    """BestEffort containers have a memory.high and no limit as the enhancement of 1.27 documents, and from 1.37 on."""
    [bare] = found(BARE, release="1.22")
    assert (bare.end, bare.least_seconds, bare.stalls) == (None, None, True)
    assert "  no end of its own: memory.max is not set" in slowing_text((bare,)).splitlines()
    assert slowing_document((bare,))[0]["leastMilliseconds"] is None
    assert slowing_document((bare,))[0]["mostMilliseconds"] is None


def test_text_and_document_agree():
    rows = found(WEB, release="1.22")
    assert slowing_text(rows).splitlines()[5:9] == [
        "container c of pod default/web",
        "  memory.high 167772160: it sleeps from 170070016 on",
        "  stalls from 197431296 on: 256 KiB in 2 s",
        "  ends at memory.max 209715200, if it keeps growing: after 2 min 49 s to 3 h 0 min of sleep",
    ]
    assert slowing_document(rows) == [
        {
            "subject": "container c of pod default/web",
            "path": str(rows[0].path),
            "high": 167772160,
            "sleepsFrom": 170070016,
            "stallsFrom": 197431296,
            "end": 209715200,
            "stalls": True,
            "leastMilliseconds": 169280,
            "mostMilliseconds": 10833920,
            "hz": 250,
        }
    ]
    assert "after 5.8 s to 6 min 17 s of sleep" in slowing_text(found(WEB, release="1.27"))


def test_a_large_container_is_stalled_for_hours():
    large = pod(container({"memory": "1Gi"}, {"memory": "8Gi"}), name="large")
    assert "after 1 h 54 min to 122 h 33 min of sleep" in slowing_text(found(large, release="1.22"))


def test_a_memory_high_close_to_the_limit_slows_nothing():
    close = pod(container({"memory": "190Mi"}, {"memory": "192Mi"}), name="close")
    [row] = found(close, release="1.27")
    assert (row.end, row.sleeps_from, row.least_seconds) == (201326592, 203870208, 0)
    assert slowing_text((row,)).endswith("  memory.high 201113600: it ends at memory.max 201326592 before it sleeps")


def test_a_plan_without_memory_high_says_so():
    even = pod(container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}), name="even")
    assert slowing_text(found(even, release="1.27")).endswith("nothing is slowed.")
