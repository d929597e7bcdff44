"""What a plan's memory.high does to programs that grow, with literal amounts.

A container with 64 MiB of request and 200 MiB of limit: the formula of 1.22 gives it 160 MiB, that of 1.27 186.4 MiB.
"""

from memqos.engine.cgroup.slowing import slowing, slowing_document, slowing_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import CgroupDriver
from tests.unit.engine.pods import NODE, ON, container, pod

WEB = pod(container({"memory": "64Mi"}, {"memory": "200Mi"}), name="web")
BARE = pod(container(), name="bare")


def found(*pods, release):
    kubelet = Kubelet.of(node=NODE, settings=ON, release=release, driver=CgroupDriver.SYSTEMD)
    return slowing(expect(pods, kubelet))


def test_the_formula_of_1_22_stalls_a_program_long_before_its_limit():
    [web] = found(WEB, release="1.22")
    assert (web.subject, web.high) == ("container c of pod default/web", 167772160)
    assert (web.sleeps_from, web.stalls_from, web.end) == (170070016, 197431296, 209715200)
    assert web.stalls
    assert int(web.least_seconds) == 169


def test_the_formula_of_1_27_lets_it_come_to_its_limit_within_seconds():
    [web] = found(WEB, release="1.27")
    assert (web.high, web.stalls, int(web.least_seconds)) == (195452928, False, 5)


def test_without_a_memory_max_it_stalls_and_never_ends():
    """BestEffort containers have a memory.high and no limit as the enhancement of 1.27 documents, and from 1.37 on."""
    [bare] = found(BARE, release="1.22")
    assert (bare.end, bare.least_seconds, bare.stalls) == (None, None, True)
    assert slowing_text((bare,)).splitlines()[-1] == "  never ends: there is no memory.max"
    assert slowing_document((bare,))[0]["leastMilliseconds"] is None


def test_text_and_document_say_the_same():
    rows = found(WEB, release="1.22")
    assert slowing_text(rows).splitlines()[2:] == [
        "container c of pod default/web",
        "  memory.high 167772160: it sleeps from 170070016 on",
        "  stalls from 197431296 on: 256 KiB in 2 s",
        "  then ends at memory.max 209715200, after at least 2 min 49 s of sleep",
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
        }
    ]
    assert "ends at memory.max 209715200, after at least 5.8 s of sleep" in slowing_text(found(WEB, release="1.27"))


def test_a_large_container_is_stalled_for_hours():
    large = pod(container({"memory": "1Gi"}, {"memory": "8Gi"}), name="large")
    assert slowing_text(found(large, release="1.22")).endswith("after at least 1 h 54 min of sleep")


def test_a_memory_high_close_to_the_limit_slows_nothing():
    close = pod(container({"memory": "190Mi"}, {"memory": "192Mi"}), name="close")
    [row] = found(close, release="1.27")
    assert (row.end, row.sleeps_from, row.least_seconds) == (201326592, 203870208, 0)
    assert slowing_text((row,)).endswith("  memory.high 201113600: it ends at memory.max 201326592 before it sleeps")


def test_a_plan_without_memory_high_says_so():
    even = pod(container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}), name="even")
    assert slowing_text(found(even, release="1.27")).endswith("nothing is slowed.")
