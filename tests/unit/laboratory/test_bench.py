"""The bench on an in-memory place: admit, judge, known deviations, and errors before a machine starts."""

import contextvars
import subprocess
import sys

import pytest

import memqos
from memqos import ManifestError, UsageError, Verdict
from memqos.clock import Deadline
from memqos.config.settings import resolve
from memqos.config.systems import systems_of
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import UnknownNameError
from memqos.known import known_deviations
from memqos.laboratory.bench import Bench
from memqos.laboratory.evidence import Folder, MachineLog, Sink
from memqos.laboratory.station import Station
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: x, resources: {requests: {memory: 64Mi}, limits: {memory: 128Mi}}}
"""
QOS = ("featureGates.MemoryQoS=true", "memoryThrottlingFactor=0.9")
HIGH = "127504384"
"""64 Mi + 0.9 * 64 Mi, down to whole pages."""

KNOWN = """
[max-is-known]
runtime = "runc"
claim = "values/pod"
knob = "memory.max"
sentence = "The limit is altered by a test."
upstream = "a tracker"
"""


@pytest.fixture
def place():
    return FakePlace()


def bench_on(place, folder, **given):
    settings = resolve(given, {}, option_prefix="")
    own = Folder(folder / "machines" / "main-0")
    log = MachineLog(Sink(own))
    [key] = systems_of(settings)
    node = node_on(place, place.runtime(key.driver), recorder=log, driver=key.driver, runtimes=TRIXIE)
    runtimes = ["containerd 1.7.24", "runc 1.1.15"]
    station = Station(id="main-0", key=key, place=place, node=node, log=log, folder=own, runtimes=runtimes)
    return Bench(station, settings, results=folder)


@pytest.fixture
def bench(place, tmp_path):
    found = bench_on(place, tmp_path / "results")
    yield found
    found.clear()


@pytest.fixture
def pod(tmp_path):
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    return file


def one(findings, knob, subject):
    [found] = [finding for finding in findings if finding.knob == knob and str(finding.subject).startswith(subject)]
    return found


def test_every_level_is_judged(bench, pod):
    findings = bench.judge(bench.admit(pod, kubernetes="1.36", overrides=QOS))
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}
    high = one(findings, "memory.high", "container app")
    assert str(high) == f"conforms: memory.high of container app of pod default/web is {HIGH}"
    subjects = " ".join(str(finding.subject) for finding in findings)
    assert all(word in subjects for word in ("kubepods", "burstable", "besteffort", "pod default/web"))


def test_a_configuration_file_decides(bench, pod, tmp_path):
    config = tmp_path / "kubelet.yaml"
    config.write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
    findings = bench.judge(bench.admit([pod], kubernetes="1.36", kubelet_config=config))
    assert one(findings, "memory.high", "container app").observed == "max"


def test_the_next_admission_takes_the_place_of_the_last(bench, pod):
    first = bench.admit(pod, kubernetes="1.36")
    [planned] = first.plan.pods
    assert stands(bench, planned)
    bench.admit([], kubernetes="1.36")
    assert not stands(bench, planned)
    bench.clear()
    assert bench.node.leftovers() == ()


def stands(bench, planned):
    return bench.node.tree.exists(planned.cgroup.path, deadline=Deadline.after(5))


def alter(bench, population):
    """A foreign write: the pod's memory.max."""
    path = population.plan.pods[0].cgroup.path
    bench.node.tree.write(path, "memory.max", "4096", deadline=Deadline.after(5))


def test_what_changes_after_the_admission_is_judged(bench, pod):
    population = bench.admit(pod, kubernetes="1.36")
    alter(bench, population)
    found = one(bench.judge(population), "memory.max", "pod default/web")
    assert str(found) == "deviates: memory.max of pod default/web is 4096, expected 134217728"


def test_a_listed_deviation_is_known(place, pod, tmp_path):
    listed = tmp_path / "known.toml"
    listed.write_text(KNOWN)
    known_deviations.cache_clear()
    bench = bench_on(place, tmp_path / "results", known=[str(listed)])
    population = bench.admit(pod, kubernetes="1.36")
    alter(bench, population)
    found = one(bench.judge(population), "memory.max", "pod default/web")
    assert (found.verdict, found.evidence["known"].partition(":")[0]) == (Verdict.KNOWN, "max-is-known")
    known_deviations.cache_clear()
    bench.clear()


def test_each_admission_keeps_its_evidence(bench, pod):
    bench.admit(pod, kubernetes="1.36")
    bench.admit(pod, kubernetes="1.27")
    kept = sorted(path.name for path in (bench.results / "populations").iterdir())
    assert kept == ["1-v1.36", "2-v1.27"]
    assert {"plan.json", "readings.jsonl", "manifests.yaml"} <= {
        path.name for path in (bench.results / "populations" / "1-v1.36").iterdir()
    }


def test_a_cell_of_a_notebook_keeps_evidence_with_the_admission_of_another_cell(bench, pod):
    """Each cell may have a context of its own."""
    [first, second, third] = [contextvars.Context() for _ in range(3)]
    population = first.run(bench.admit, pod, kubernetes="1.36")
    readings = bench.results / "populations" / "1-v1.36" / "readings.jsonl"
    before = len(readings.read_text().splitlines())
    second.run(bench.judge, population)
    assert len(readings.read_text().splitlines()) == before + 1
    third.run(bench.clear)
    assert bench.node.leftovers() == ()


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"kubernetes": "1.3"}, UnknownNameError, "1.3"),
        ({"kubernetes": "1.36", "variant": "wrong"}, UnknownNameError, "variant"),
        ({"kubernetes": "1.36", "kubelet_config": "gone.yaml"}, UsageError, "gone.yaml"),
        ({"kubernetes": "1.36", "overrides": ["memoryThrottlingFactor=2"]}, UsageError, "memoryThrottlingFactor"),
    ],
)
def test_a_mistake_leaves_the_pods_of_before(bench, pod, words, error, said):
    before = bench.admit(pod, kubernetes="1.36")
    with pytest.raises(error, match=said):
        bench.admit(pod, **words)
    assert stands(bench, before.plan.pods[0])


def test_a_wrong_manifest_is_named(bench, tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(POD.replace("64Mi", "64Q"))
    with pytest.raises(ManifestError, match=r"wrong\.yaml:7"):
        bench.admit(file, kubernetes="1.36")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"runtme": "runc"}, "runtme"),
        ({"all": True}, "all"),
        ({"profile": ["trixie", "forky"]}, "one profile"),
        ({"profile": "sarge"}, "sarge"),
        ({"driver": "other"}, "other"),
        ({"cri_socket": "nowhere"}, "nowhere"),
        ({"enactor": "memqs"}, "there is no enactor 'memqs'.*Did you mean 'memqos'.*Known: kubelet, memqos"),
    ],
)
def test_a_wrong_setting_is_refused_before_a_machine_starts(words, said):
    with pytest.raises(UsageError, match=said), memqos.lab(**words):
        pytest.fail("it opened")


def test_neither_pytest_nor_click_is_needed():
    """In a process of its own: this one has pytest."""
    code = (
        "import sys, memqos; memqos.lab;"
        "print([name for name in ('pytest', '_pytest', 'click', 'memqos.plugin', 'memqos.cli') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
