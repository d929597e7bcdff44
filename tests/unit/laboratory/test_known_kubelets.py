"""Known deviations of a kubelet go by the version that wrote the value, not by the first one of the run."""

import pytest

from memqos.config.settings import resolve
from memqos.config.systems import systems_of
from memqos.engine.answer.finding import Finding, Setter, Subject, Verdict
from memqos.engine.answer.succession import succession
from memqos.engine.plan import Reason
from memqos.engine.translate.runtimes import TRIXIE
from memqos.known import known_deviations, known_fault_or_not, known_or_not
from memqos.laboratory.evidence import Folder, MachineLog, Sink
from memqos.laboratory.station import KubeletsUnderTest, Station
from memqos.model.knob import Knob
from memqos.model.node import ReservationPolicy
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace
from tests.unit.node.fakes import Bench, kubelet, pod

OLD, NEW = "/usr/local/bin/kubelet", "/usr/local/bin/kubelet-upgrade"
VERSIONS = {OLD: "v1.32.13", NEW: "v1.36.2"}
PRESSURE = "cpu.pressure some in /stats/summary"
"""vm/known.toml: wrong since 1.33."""

KNOWN = """
[low-since-1-33]
runtime = "kubelet"
claim = "kubelet/upgrade"
knob = "memory.low"
since = "1.33"
sentence = "It is altered."
upstream = "a tracker"
"""


class Session:
    def __init__(self, binary):
        self.binary = binary


@pytest.fixture
def station(tmp_path):
    """A station whose kubelet was last started from this path, "" for none."""

    def made(binary, versions=VERSIONS):
        place, [key] = FakePlace(), systems_of(resolve({}, {}, option_prefix=""))
        folder = Folder(tmp_path)
        log = MachineLog(Sink(folder))
        return Station(
            id="main-0",
            key=key,
            place=place,
            node=node_on(place, place.runtime(key.driver), recorder=log, driver=key.driver, runtimes=TRIXIE),
            log=log,
            folder=folder,
            runtimes=["containerd 1.7.24", "runc 1.1.15", f"kubelet {VERSIONS[OLD]}"],
            kubelets=KubeletsUnderTest(session=Session(binary), versions=versions),
        )

    known_deviations.cache_clear()
    yield made
    known_deviations.cache_clear()


def deviation(knob, reason=None):
    return Finding(
        verdict=Verdict.DEVIATES,
        subject=Subject.of_pod("default", "web"),
        cgroup="/kubepods.slice/web",
        knob=knob,
        set_by=Setter.KUBELET,
        expected="1",
        observed="2",
        reason=reason,
    )


@pytest.mark.parametrize(
    ("binary", "verdict"),
    [("", Verdict.DEVIATES), (OLD, Verdict.DEVIATES), (NEW, Verdict.KNOWN)],
)
def test_a_deviation_after_an_upgrade_is_of_the_new_kubelet(station, binary, verdict):
    """The totals of pressure are wrong since 1.33: known after an upgrade from 1.32, and not before it."""
    found = station(binary)
    assert known_or_not(deviation(PRESSURE), "kubelet/reports-pressure", found).verdict is verdict
    assert known_fault_or_not(deviation(PRESSURE), {"kubelet"}, found).verdict is verdict


def kept_reason():
    """Of memory.low of a pod under None that was made under TieredReservation."""
    bench = Bench()
    one = pod("web")
    before, after = (
        bench.node.plan([one], kubelet("1.36", memory_reservation_policy=policy, feature_gates={"MemoryQoS": True}))
        for policy in (ReservationPolicy.TIERED, ReservationPolicy.NONE)
    )
    return succession(before, after).pods[0].cgroup.knobs[Knob.MEMORY_LOW].reason


WRITTEN = Reason(rule="the kubelet writes it", revision="1.36", source="kubelet")


@pytest.mark.parametrize(
    ("binary", "reason", "verdict"),
    [
        (NEW, WRITTEN, Verdict.KNOWN),
        (NEW, kept_reason(), Verdict.DEVIATES),
        (OLD, WRITTEN, Verdict.DEVIATES),
        (OLD, kept_reason(), Verdict.KNOWN),
    ],
)
def test_a_value_that_outlived_an_upgrade_is_of_the_other_kubelet(station, tmp_path, binary, reason, verdict):
    """After the upgrade 1.32 wrote what was kept; after the rollback 1.36 did."""
    listed = tmp_path / "known.toml"
    listed.write_text(KNOWN)
    found = known_or_not(deviation("memory.low", reason), "kubelet/upgrade", station(binary), (listed,))
    assert found.verdict is verdict


def test_a_single_kubelet_wrote_what_it_kept(station, tmp_path):
    listed = tmp_path / "known.toml"
    listed.write_text(KNOWN)
    found = station(NEW, {NEW: VERSIONS[NEW]})
    told = known_or_not(deviation("memory.low", kept_reason()), "kubelet/upgrade", found, (listed,))
    assert told.verdict is Verdict.KNOWN
