"""Which hop lost a container's value, on a node in memory, and errors while looking for it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memqos.catalog.kubelets import KubeletCase
from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Runtimes
from memqos.errors import DeadlineError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.node import NodeUnderTest, ended
from memqos.node.connection import node_on
from memqos.node.fake import NoRecorder
from memqos.place.fake import FAKE_FACTS, FakePlace
from memqos.plugin.collection.catalogue import Catalogue
from memqos.runtime.base import ContainerHandle, Traces
from memqos.runtime.fake import FakeRuntime
from memqos.target.fake import FakeAnswer
from tests.unit.node.fakes import Bench, kubelet, pod

CATALOGUE = Catalogue()
DIRECT = Runtimes(cri=BUNDLES, oci=TRIXIE.oci)
NO = RuntimeCallError("no.", data={"method": "status", "code": "UNKNOWN", "details": "no"})


class Runtime:
    """A fake runtime with a bundle, a state and a unit for each container, which a test changes.

    config, state: change the documents; unit: systemd's properties in addition to the requested ones.
    """

    def __init__(self, place: FakePlace, driver: CgroupDriver = CgroupDriver.SYSTEMD) -> None:
        self.fake: FakeRuntime = place.runtime(driver)
        self.files: dict[str, str] = {}
        self.config: Callable[[dict[str, Any]], None] = lambda _: None
        self.state: Callable[[dict[str, Any]], None] = lambda _: None
        self.has_spec = True
        self.unit = b"LoadState=loaded\nMemoryHigh=50331648\nMemoryMin=8388608\nMemoryMax=67108864\n"
        self.update_is_done = True
        self.shown: Mapping[str, str] = {}
        self.cgroups = place.cgroups
        place.target.on(("head",), self._print)
        place.target.on(("tail",), self._print)
        place.target.on(("systemctl", "show"), lambda *_: (0, self.unit, b""))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    def _print(self, argv: Sequence[str], _: bytes, __: Deadline) -> FakeAnswer:
        text = self.files.get(argv[-1])
        return (1, b"", b"No such file") if text is None else (0, text.encode(), b"")

    def start(self, handle: ContainerHandle, *, deadline: Deadline) -> None:
        self.fake.start(handle, deadline=deadline)
        for name, text in self.shown.items():
            self.cgroups.put(self.fake.cgroup_of(handle), name, text)
        spec = json.loads(json.dumps(self.fake.traces(handle, deadline=deadline).spec))
        self.config(spec["linux"]["resources"])
        state = {"memory": 67108864, "unified": dict(self.fake.resources_of(handle).unified)}
        self.state(state)
        self.files[f"/run/{handle.id}/config.json"] = json.dumps(spec)
        self.files[f"/run/{handle.id}/state.json"] = json.dumps({"config": {"cgroups": state}})
        self.files[f"/run/{handle.id}/log.json"] = '{"level": "warning"}\n'

    def update(self, handle: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        if self.update_is_done:
            self.fake.update(handle, resources, deadline=deadline)
            return
        stored = self.fake.specification_of(handle)
        self.fake.remember(handle, dataclasses.replace(stored, unified={**stored.unified, **resources.unified}))

    def traces(self, handle: ContainerHandle, *, deadline: Deadline) -> Traces:
        spec = self.fake.traces(handle, deadline=deadline).spec
        folder = f"/run/{handle.id}"
        return Traces(
            spec=spec if self.has_spec else None,
            config=(f"/elsewhere/{handle.id}/config.json", f"{folder}/config.json"),
            state=(f"{folder}/state.json",),
            log=(f"{folder}/log.json",),
        )


def asked(
    request: str,
    change: Callable[[Runtime], None],
    driver: CgroupDriver = CgroupDriver.SYSTEMD,
    runtimes: Runtimes = TRIXIE,
) -> Finding:
    """The one deviation after a request on a runtime with this change."""
    place = FakePlace(runtimes=runtimes)
    runtime = Runtime(place, driver)
    change(runtime)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=driver, runtimes=place.versions)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        found = requests.judge(CATALOGUE.request(request))
    [one] = [finding for finding in found if finding.verdict is Verdict.DEVIATES]
    return one


def lost(finding: Finding) -> tuple[str, str]:
    assert finding.lost is not None
    return finding.knob, finding.lost.by


def shows_no_high(runtime: Runtime) -> None:
    runtime.shown = {"memory.high": "max"}


def test_a_value_that_every_hop_had_was_lost_after_systemd() -> None:
    finding = asked("unified-high", shows_no_high)
    assert lost(finding) == ("memory.high", "a writer after systemd")


def test_a_value_that_the_unit_has_not_was_lost_on_the_way_to_it() -> None:
    def reloaded(runtime: Runtime) -> None:
        shows_no_high(runtime)
        runtime.unit = b"LoadState=loaded\nMemoryHigh=infinity\n"

    finding = asked("unified-high", reloaded)
    assert lost(finding) == ("memory.high", "the OCI runtime, or another writer of the systemd unit")


def test_a_value_that_the_state_has_not_was_lost_by_the_oci_runtime() -> None:
    def forgets(runtime: Runtime) -> None:
        shows_no_high(runtime)
        runtime.state = lambda state: state.pop("unified")

    assert lost(asked("unified-high", forgets)) == ("memory.high", "the OCI runtime")


def test_a_value_that_config_json_has_not_was_lost_before_the_oci_runtime_or_by_its_edit() -> None:
    def edits(runtime: Runtime) -> None:
        shows_no_high(runtime)
        runtime.config = lambda resources: resources.pop("unified")

    assert lost(asked("unified-high", edits)) == (
        "memory.high",
        "the daemon, or a runtime that changed its config.json",
    )


def test_with_no_daemon_it_was_the_runtime_that_changed_config_json() -> None:
    def edits(runtime: Runtime) -> None:
        shows_no_high(runtime)
        runtime.has_spec = False
        runtime.config = lambda resources: resources.pop("unified")

    assert lost(asked("unified-high", edits, runtimes=DIRECT)) == (
        "memory.high",
        "the OCI runtime, which changed its config.json",
    )


def test_a_value_that_the_stored_spec_has_not_was_lost_by_the_daemon() -> None:
    class Drops(Runtime):
        def create(self, sandbox: Any, spec: Any, *, deadline: Deadline) -> Any:
            resources = dataclasses.replace(spec.resources, unified={})
            return self.fake.create(sandbox, dataclasses.replace(spec, resources=resources), deadline=deadline)

    place = FakePlace()
    node = node_on(
        place,
        Drops(place),  # type: ignore[arg-type]
        recorder=NoRecorder(),
        driver=CgroupDriver.SYSTEMD,
        runtimes=place.versions,
    )
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        found = requests.judge(CATALOGUE.request("unified-high"))
    [finding] = [one for one in found if one.verdict is Verdict.DEVIATES]
    assert lost(finding) == ("memory.high", "the daemon")
    assert finding.lost is not None
    assert "the request had unified memory.high = " in finding.lost.told


def test_an_update_stored_by_the_daemon_but_not_applied_was_lost_by_the_oci_runtime() -> None:
    def ignores(runtime: Runtime) -> None:
        runtime.update_is_done = False

    finding = asked("update-unified-high", ignores)
    assert lost(finding) == ("memory.high", "the OCI runtime")
    assert finding.lost is not None
    assert [hop.hop.value for hop in finding.lost.hops if not hop.why_not] == [
        "the daemon's stored spec", "the OCI runtime's state.json", "the systemd unit",
    ]  # fmt: skip


def test_the_cgroupfs_driver_has_no_unit_to_look_at() -> None:
    finding = asked("unified-high", shows_no_high, CgroupDriver.CGROUPFS)
    assert lost(finding) == ("memory.high", "the OCI runtime")
    assert finding.lost is not None
    assert finding.lost.hops[-1].why_not == "the container has no systemd unit with properties of its own"


def test_the_documents_of_the_hops_are_kept_with_the_finding() -> None:
    finding = asked("unified-high", shows_no_high)
    assert finding.lost is not None
    names = {name.partition(".")[2] for name in finding.lost.documents}
    assert names == {"spec.json", "config.json", "state.json", "unit.txt", "runtime.log"}
    assert all(name.startswith("requested-") for name in finding.lost.documents)
    assert '{"level": "warning"}\n' in finding.lost.documents.values()


@pytest.mark.parametrize(
    ("text", "why_not"),
    [
        ("{", "it does not parse: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[" * 100_000, "it does not parse: maximum recursion depth exceeded"),
        ("9" * 5000, "it does not parse: Exceeds the limit (4300 digits) for integer string conversion"),
    ],
)
def test_a_document_that_does_not_parse_is_left_out_with_its_reason(text: str, why_not: str) -> None:
    class Breaks(Runtime):
        def start(self, handle: ContainerHandle, *, deadline: Deadline) -> None:
            super().start(handle, deadline=deadline)
            self.files[f"/run/{handle.id}/state.json"] = text

    place = FakePlace()
    runtime = Breaks(place)
    shows_no_high(runtime)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=place.versions)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.36-none")) as requests:
        found = requests.judge(CATALOGUE.request("unified-high"))
    [finding] = [one for one in found if one.verdict is Verdict.DEVIATES]
    assert lost(finding) == ("memory.high", "a writer after systemd")
    assert finding.lost is not None
    assert finding.lost.hops[2].why_not.startswith(why_not)


@pytest.mark.parametrize(
    ("unit", "why_not", "by"),
    [
        (
            b"LoadState=not-found\nMemoryHigh=infinity\n",
            "not-found",
            "the OCI runtime, or a writer after it",
        ),
        (b"", "unknown", "the OCI runtime"),
    ],
)
def test_a_missing_unit_is_left_out_with_its_reason(unit: bytes, why_not: str, by: str) -> None:
    def gone(runtime: Runtime) -> None:
        shows_no_high(runtime)
        runtime.unit = unit

    finding = asked("unified-high", gone)
    assert finding.lost is not None
    assert finding.lost.hops[3].why_not.endswith(f".scope as {why_not}")
    assert lost(finding) == ("memory.high", by)


def wrong_bench(error: Exception | None = None) -> Bench:
    """A node whose containers show no memory.high; error: the daemon's answer to tracing."""

    class Wrong(type(Bench().runtime)):  # type: ignore[misc]
        looks = 0

        def start(self, handle: ContainerHandle, *, deadline: Deadline) -> None:
            super().start(handle, deadline=deadline)
            self._cgroups.put(self._containers[handle.id].cgroup, "memory.high", "max")

        def traces(self, handle: ContainerHandle, *, deadline: Deadline) -> Traces:
            type(self).looks += 1
            if error is not None:
                raise error
            return super().traces(handle, deadline=deadline)

    bench = Bench()
    bench.runtime.__class__ = Wrong
    return bench


def deviating(findings: Sequence[Finding]) -> list[Finding]:
    return [one for one in findings if one.verdict is Verdict.DEVIATES]


def judged(node: NodeUnderTest, case: KubeletCase, *names: str) -> list[Finding]:
    pods = [pod(name) for name in names]
    with node.admitted(pods, case) as population:
        return [one for each in pods for one in deviating(population.judge_pod(each))]


def test_findings_of_a_population_name_the_lost_hop() -> None:
    [finding] = judged(wrong_bench().node, kubelet(), "web")
    assert lost(finding) == ("memory.high", "the OCI runtime")
    assert finding.lost is not None
    assert finding.lost.hops[3].why_not == "systemctl: not found"


@pytest.mark.parametrize("error", [NO, KeyError("a mistake of memqos's own"), OSError("no route to host")])
def test_an_error_in_tracing_is_reported_and_the_deviation_remains(error: Exception) -> None:
    [finding] = judged(wrong_bench(error).node, kubelet(), "web")
    assert (finding.knob, finding.observed) == ("memory.high", "max")
    assert finding.lost is not None
    assert (finding.lost.by, finding.lost.told) == ("", f"first lost: not observable: {error}")


def test_a_hanging_daemon_is_asked_once() -> None:
    hangs = DeadlineError("waited 20 s.", data={"condition": "an answer", "last": None, "elapsed": 20.0})
    bench = wrong_bench(hangs)
    found = judged(bench.node, kubelet(), "web", "api", "db")
    assert {one.lost.told for one in found if one.lost} == {"first lost: not observable: waited 20 s."}
    assert (len(found), type(bench.runtime).looks) == (3, 1)


def test_without_a_deviation_nothing_is_traced() -> None:
    bench = wrong_bench()
    assert judged(bench.node, kubelet("1.27", feature_gates={}), "web") == []
    assert type(bench.runtime).looks == 0


def test_a_failed_precondition_names_the_lost_hop_too() -> None:
    with wrong_bench().node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_HIGH]) as container:
        course = container.until(ended())
    [premise] = deviating(course.premises)
    assert lost(premise) == ("memory.high", "the OCI runtime")


def test_a_resize_names_the_lost_hop_of_its_last_state() -> None:
    place = FakePlace()
    runtime = Runtime(place)
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=place.versions)  # type: ignore[arg-type]
    before, case = CATALOGUE.pod("resizable"), CATALOGUE.kubelet("v1.36-tiered")
    with node.admitted([before], case) as population:
        runtime.update_is_done = False
        resized = node.resize(population, before, case, to=CATALOGUE.pod("resizable-larger"))
        found = deviating(resized.judge())
    assert {one.knob for one in found if one.lost} >= {"memory.max"}
    assert all(one.lost is not None for one in found if one.cgroup.endswith(".scope"))


def test_on_cgroup_v1_the_bundle_is_read_and_no_unit() -> None:
    place = FakePlace(facts=dataclasses.replace(FAKE_FACTS, cgroup_version=CgroupVersion.V1))
    runtime = Runtime(place)
    runtime.shown = {"memory.limit_in_bytes": "-1"}
    node = node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=place.versions)  # type: ignore[arg-type]
    with node.requests(CATALOGUE.pod("best-effort"), CATALOGUE.kubelet("v1.27")) as requests:
        found = requests.judge(CATALOGUE.request("limit"))
    [finding] = [one for one in deviating(found) if one.knob == "memory.limit_in_bytes" and one.lost]
    assert lost(finding) == ("memory.limit_in_bytes", "the OCI runtime")
    assert finding.lost is not None
    assert finding.lost.hops[0].held == "memory.limit = 67108864"
    assert finding.lost.hops[3].why_not == "the container has no systemd unit with properties of its own"


def test_a_value_from_before_was_lost_by_no_hop_and_documents_are_kept() -> None:
    with wrong_bench().node.watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_HIGH]) as container:
        container.until(ended())
        path = container.path
        sample = next(one for one in container.samples if one.runs and path in one.reading.cgroups)
        cgroup = sample.reading.cgroups[path]
        asked_for = str(sample.planned[Knob.MEMORY_HIGH].value)
        right = dataclasses.replace(cgroup, files={**cgroup.files, "memory.high": asked_for})
        reading = dataclasses.replace(sample.reading, cgroups={**sample.reading.cgroups, path: right})
        container.samples.insert(container.samples.index(sample), dataclasses.replace(sample, reading=reading))
        [premise] = deviating(container.course.premises)
    assert lost(premise) == ("memory.high", "a writer while the container ran")
    assert premise.lost is not None
    assert (len(premise.lost.hops), bool(premise.lost.documents)) == (4, True)


def test_containers_with_equal_names_are_distinguished() -> None:
    bench = wrong_bench()
    found = judged(bench.node, kubelet(), "web", "api")
    kept = [name for one in found if one.lost for name in one.lost.documents]
    assert len(kept) == len(set(kept)) == 2


def test_a_pod_kept_between_kubelets_is_compared_with_its_own_request() -> None:
    bench = wrong_bench()
    with bench.node.keeping_pods():
        first = judged(bench.node, kubelet(), "web")
        again = judged(bench.node, kubelet(), "web")
    assert [lost(one) for one in (*first, *again)] == [("memory.high", "the OCI runtime")] * 2
    assert len(bench.runtime.sandboxes) == 1


def test_a_value_that_a_later_step_sets_right_was_late_and_is_not_lost() -> None:
    bench = Bench()
    before, case = CATALOGUE.pod("resizable"), CATALOGUE.kubelet("v1.36-tiered")
    late: list[tuple[ContainerHandle, ContainerResources]] = []
    update = bench.runtime.update

    def lazily(handle: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
        """Do each update when the next one comes, and the last at once."""
        late.append((handle, resources))
        if len(late) > 1:
            for one, wanted in late:
                update(one, wanted, deadline=deadline)
            late.clear()

    bench.runtime.update = lazily  # type: ignore[method-assign]
    with bench.node.admitted([before], case) as population:
        resized = bench.node.resize(population, before, case, to=CATALOGUE.pod("resizable-larger"))
        found = deviating(resized.judge())
    assert (len(late), bool(found)) == (0, True)
    assert {one.lost for one in found} == {None}
