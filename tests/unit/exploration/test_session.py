"""Sessions on a place in memory: planted faults are found, shrunk to the smallest example, kept and repeated."""

import dataclasses
import json
import threading

import pytest

from memqos.clock import Deadline
from memqos.config.settings import resolve
from memqos.engine.answer.finding import Verdict
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import MachineryError, RuntimeCallError, UsageError
from memqos.exploration.batches import SMALL, Batches
from memqos.exploration.examples import HEAD, ConfiguredKubelet, Example, Kind, example_of
from memqos.exploration.explore import Comparison, Order, Progress
from memqos.exploration.judge import Judge
from memqos.exploration.session import Database, Session, load_found, shape_of
from memqos.exploration.shrinker import measure
from memqos.exploration.strategies import RUNNABLE
from memqos.model.node import CgroupDriver
from memqos.model.quantity import Quantity
from memqos.node.connection import node_on
from memqos.node.fake import FAKE_FACTS, NoRecorder
from memqos.node.node_under_test import NodeUnderTest
from memqos.place.fake import FakePlace
from memqos.runtime.base import Capability
from memqos.runtime.fake import FakeOciRuntime, FakeRuntime

PAGE = 4096
MIB = 1 << 20
# No program runs in memory, so no init container ends.
SHAPE = dataclasses.replace(RUNNABLE, init=0)


class OnePageShort(FakeRuntime):
    """Writes memory.max a page short if it is an odd number of pages and the pod has another container already."""

    def __init__(self, cgroups, **more):
        super().__init__(cgroups, **more)
        self.tree = cgroups

    def write_as_oci(self, method, cgroup, asked, stored=None):
        limit = asked.memory_limit or 0
        beside = {path for path in self.tree.below([cgroup.parent]) if path not in {cgroup, cgroup.parent}}
        if method == "StartContainer" and limit // PAGE % 2 and limit % PAGE == 0 and len(beside) > 1:
            asked = dataclasses.replace(asked, memory_limit=limit - PAGE)
        return super().write_as_oci(method, cgroup, asked, stored)


class ForgetsLow(FakeRuntime):
    """Forgets memory.low in the second update of a container, if the first one set cpu.shares."""

    def update(self, container, resources, *, deadline):
        before = self.resources_of(container)
        if before.cpu_shares == 0 or "memory.low" not in resources.unified:
            return super().update(container, resources, deadline=deadline)
        kept = {name: text for name, text in resources.unified.items() if name != "memory.low"}
        return super().update(container, dataclasses.replace(resources, unified=kept), deadline=deadline)


class CreatesAlone(FakeOciRuntime):
    """A runtime without the commands update and events."""

    @property
    def capabilities(self):
        return super().capabilities - {Capability.UPDATE, Capability.EVENTS}

    def update(self, *_, **__):
        raise RuntimeCallError("unknown command update", data={"method": "update", "code": "", "details": ""})

    def stats_event(self, *_, **__):
        raise RuntimeCallError("unknown command events", data={"method": "events", "code": "", "details": ""})


def judge_with(kind=FakeRuntime):
    place = FakePlace(kind=kind)
    runtime = place.runtime(CgroupDriver.SYSTEMD)
    return Judge(node_on(place, runtime, recorder=NoRecorder(), driver=CgroupDriver.SYSTEMD, runtimes=TRIXIE))


def session(judge, *kinds, database=None, **more):
    batches = Batches(
        seed=7,
        node=FAKE_FACTS,
        driver=CgroupDriver.SYSTEMD,
        shape=SHAPE,
        kinds=kinds or tuple(Kind),
        releases=("1.36",),
    )
    return Session(batches, judge, until=Deadline.after(600), database=database, **more)


def test_a_right_runtime_has_no_findings():
    one = session(judge_with(), Kind.PODS, Kind.RESIZE)
    one.run(batches=4)
    assert one.found == {}
    assert one.counts.examples["pods"] > 10
    assert one.counts.files > 300
    assert one.counts.containers > 20
    assert len(one.counts.shapes) > 10


def under_gate(on):
    gates = {"PodLevelResources": on}
    return ConfiguredKubelet(kubernetes="1.36", config={**HEAD, "featureGates": gates})


def test_a_restart_that_would_move_a_running_pod_is_not_tried():
    """Without the gate the pod is BestEffort, so the next kubelet looks for it below another QoS class."""
    whole = {"limits": {"memory": "64Mi", "cpu": "1"}, "requests": {"memory": "64Mi", "cpu": "1"}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "resources": whole,
            "containers": [{"name": "c0", "image": "memqos.local/memload:1", "args": ["hold"]}],
        },
    }
    example = Example(kubelet=under_gate(True), pods=[manifest], then=[under_gate(False)])
    [tried] = judge_with().try_all([example])
    assert "kubepods-besteffort-pod" in tried.skipped
    assert "the next kubelet would look for it in" in tried.skipped


class KeepsSandboxes(FakeRuntime):
    """Cannot remove a sandbox."""

    def remove_sandbox(self, *_, **__):
        raise MachineryError("not in time: the sandbox is gone")


def test_what_was_judged_counts_if_its_pods_cannot_be_removed():
    one = session(judge_with(KeepsSandboxes), Kind.PODS)
    one.run(batches=1)
    assert one.counts.files > 50
    [trouble] = one.counts.troubles
    assert trouble.startswith("pods were not removed: ")


def test_a_batch_that_takes_long_is_reported_meanwhile():
    said, slow = [], threading.Event()

    class Waits(Judge):
        def try_all(self, examples, *, alone=False):
            slow.wait(5)
            return super().try_all(examples, alone=alone)

    def say(text, *, err):
        said.append((text, err))
        if "batch 1" in text:
            slow.set()

    judge = judge_with()
    judge.__class__ = Waits
    one = session(judge, Kind.PODS)
    with Progress(say, beat=0.02).beating(one):
        one.run(batches=1)
    # The first may come before the batch is drawn.
    assert {("memqos: 0.0 min: batch 1, pods; 0 pods before", True)} <= set(said)


def test_a_right_runtime_resizes_without_findings():
    one = session(judge_with(), Kind.RESIZE)
    one.run(batches=4)
    assert one.found == {}
    assert one.counts.examples["resize"] >= 1


def test_commands_that_a_runtime_lacks_are_left_out_of_lifecycles():
    one = session(judge_with(CreatesAlone), Kind.LIFECYCLE)
    one.run(batches=2)
    assert one.found == {}
    assert one.counts.troubles == {}
    assert one.counts.examples["lifecycle"] > 20


def test_under_a_real_kubelet_pods_without_room_are_left_out(monkeypatch):
    """It would reject them, and the sums above pods would differ."""
    judge = judge_with()
    kubelet = ConfiguredKubelet(kubernetes="1.36", config={**HEAD, "failSwapOn": False})

    def asks_for(cpu):
        container = {"name": "app", "image": "memqos.local/memload:1", "resources": {"requests": {"cpu": cpu}}}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
        return Example(kubelet=kubelet, pods=(manifest,))

    examples = [asks_for("100m"), asks_for("100")]
    assert [one.skipped for one in judge.try_all(examples)] == ["", ""]
    monkeypatch.setattr(NodeUnderTest, "why_not", lambda *_: "")
    fits, too_large = judge.try_all(examples)
    assert (fits.skipped, bool(fits.findings)) == ("", True)
    assert "Node didn't have enough resource: cpu, requested: 100000" in too_large.skipped


def kubelet_of(tmp_path, version):
    path = tmp_path / "kubelet"
    path.write_text(f"#!/bin/sh\necho 'Kubernetes {version}'\n")
    path.chmod(0o755)
    return str(path)


def test_a_kubelet_s_release_selects_the_rules_and_the_kinds(tmp_path):
    order = Order(settings=resolve({"kubelet_binary": kubelet_of(tmp_path, "v1.32.13")}, {}), minutes=1, seed=1)
    assert list(order.releases) == ["1.32"]
    assert order.drawn_kinds == (Kind.PODS, Kind.RESTART)
    with pytest.raises(UsageError, match="carries out no examples of the kind 'resize'"):
        _ = dataclasses.replace(order, kinds=("resize",)).drawn_kinds
    later = Order(settings=resolve({"kubelet_binary": kubelet_of(tmp_path, "v1.36.2")}, {}), minutes=1, seed=1)
    assert later.drawn_kinds == (Kind.PODS, Kind.RESIZE, Kind.RESTART)
    with pytest.raises(UsageError, match="no examples of the kind 'lifecycle'"):
        _ = dataclasses.replace(later, kinds=("pods", "lifecycle")).drawn_kinds
    other = resolve({"kubelet_binary": kubelet_of(tmp_path, "v1.36.2"), "kubernetes": "1.27"}, {})
    with pytest.raises(UsageError, match=r"the kubelet.s release is 1\.36, not 1\.27"):
        _ = dataclasses.replace(later, settings=other).releases


def test_a_rare_fault_is_found_and_shrunk_to_the_smallest_pod(tmp_path):
    one = session(judge_with(OnePageShort), Kind.PODS, database=Database(tmp_path / "found"))
    one.run(batches=8)
    found = one.found["pods-container-memory.max"]
    assert (found.shrunk, found.again) == (True, True)
    [pod] = found.example.pods
    containers = pod["spec"]["containers"]
    assert len(containers) == 2
    assert "initContainers" not in pod["spec"]
    [limit] = [one["resources"] for one in containers if "resources" in one]
    # The smallest odd number of pages that a container starts under: 16 MiB and a page.
    assert limit == {"limits": {"memory": "16388Ki"}}
    assert (found.expected, found.observed) == (str(16 * MIB + PAGE), str(16 * MIB))
    assert found.example.kubelet.config.keys() <= {*HEAD, "cgroupDriver", "failSwapOn", "failCgroupV1"}


def test_the_shortest_failing_sequence():
    one = session(judge_with(ForgetsLow), Kind.LIFECYCLE)
    one.run(batches=12)
    found = one.found["lifecycle-container-memory.low"]
    assert found.shrunk
    first, *updates = found.example.steps
    # One request sets cpu.shares, and the next sets memory.low.
    assert len(updates) == 1
    assert first == {"create": {"cpu_shares": 1}} or "cpu_shares" in first["create"]
    assert [*updates[0]["update"]["unified"]] == ["memory.low"]
    assert updates[0]["update"].keys() == {"unified"}


def test_kept_examples_are_tried_first_and_repeated(tmp_path):
    folder = tmp_path / "found"
    session(judge_with(OnePageShort), Kind.PODS, database=Database(folder)).run(batches=8)
    [file] = folder.glob("*.json")
    kept = load_found(file)
    again = session(judge_with(OnePageShort), Kind.PODS)
    assert again.replay(kept)
    assert again.found.keys() == {"pods-container-memory.max"}
    mended = session(judge_with(), Kind.PODS)
    assert not mended.replay(kept)
    resumed = session(judge_with(), Kind.PODS, database=Database(folder))
    resumed.run(batches=1)
    assert resumed.gone == ["pods-container-memory.max"]
    still = session(judge_with(OnePageShort), Kind.PODS, database=Database(folder))
    still.run(batches=0)
    assert still.found["pods-container-memory.max"].shrunk


def test_an_interrupt_loses_nothing(tmp_path):
    class StoppedError(Exception):
        pass

    def interrupt(running):
        if running.found:
            raise StoppedError

    one = session(judge_with(OnePageShort), Kind.PODS, database=Database(tmp_path / "found"), told=interrupt)
    with pytest.raises(StoppedError):
        one.run(batches=8)
    [file] = (tmp_path / "found").glob("*.json")
    kept = load_found(file)
    assert not kept.shrunk
    assert one.counts.files > 0
    resumed = session(judge_with(OnePageShort), Kind.PODS, database=Database(tmp_path / "found"))
    resumed.run(batches=0)
    assert load_found(file).shrunk


def test_an_interrupt_of_the_shrinking_keeps_the_smallest_so_far(tmp_path):
    class StoppedError(Exception):
        pass

    sizes = []

    def interrupt(running):
        for one in running.found.values():
            sizes.append(measure(one.example.document()))
            if len({*sizes}) > 2:
                raise StoppedError

    one = session(judge_with(OnePageShort), Kind.PODS, database=Database(tmp_path / "found"), told=interrupt)
    with pytest.raises(StoppedError):
        one.run(batches=8)
    [file] = (tmp_path / "found").glob("*.json")
    assert measure(load_found(file).example.document()) == min(sizes) < max(sizes)


def test_known_deviations_are_counted_and_not_pursued():
    def known(finding, _):
        return dataclasses.replace(finding, verdict=Verdict.KNOWN, evidence={"known": "a-page-short"})

    one = session(judge_with(OnePageShort), Kind.PODS, known=known)
    one.run(batches=8)
    assert one.found == {}
    assert one.counts.known["a-page-short"] > 0


def test_two_runtimes_are_compared_without_the_engine():
    both = Comparison(judge_with(), judge_with(OnePageShort), ("right", "short"))
    one = session(both, Kind.PODS)
    one.run(batches=8)
    [found] = one.found.values()
    assert (found.expected, found.observed) == (
        "the same with both",
        f"{16 * MIB + PAGE} with right, {16 * MIB} with short",
    )
    same = session(Comparison(judge_with(), judge_with(), ("one", "other")), Kind.PODS)
    same.run(batches=3)
    assert same.found == {}


def test_a_machine_that_fails_repeatedly_ends_the_session():
    class Broken:
        def try_all(self, _, **__):
            raise MachineryError("the machine is gone.")

    one = session(Broken(), Kind.PODS)
    with pytest.raises(MachineryError, match="the machine is gone"):
        one.run(batches=8)
    assert one.counts.troubles == {"the machine is gone.": 3}


def test_the_same_seed_draws_the_same():
    def drawn(seed):
        batches = Batches(seed=seed, node=FAKE_FACTS, driver=CgroupDriver.SYSTEMD)
        return [[one.document() for one in batches.batch(number)] for number in range(7)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_examples_survive_json():
    batches = Batches(seed=3, node=FAKE_FACTS, driver=CgroupDriver.SYSTEMD)
    kinds = set()
    for number in range(7):
        for one in batches.batch(number):
            kinds.add(one.kind)
            back = example_of(json.loads(json.dumps(one.document())))
            assert (back.document(), shape_of(back)) == (one.document(), shape_of(one))
    assert kinds == {*Kind} - {Kind.KERNEL}, "trees of cgroups are drawn only if they are wanted"


PLAIN = ConfiguredKubelet(kubernetes="1.36", config=dict(HEAD))


@pytest.mark.parametrize(("document", "says"), [
    ({}, "it is not an example of memqos explore"),
    ({"kubernetes": "1.36", "config": dict(HEAD)}, "no pods, no steps and no tree"),
    ({"kubernetes": "1.36", "config": dict(HEAD), "steps": [{"fly": {}}]}, "a step has one of these verbs: create"),
    ({"kubernetes": "1.36", "config": dict(HEAD), "steps": [{"update": {}}]}, "the first step must create"),
    ({"kubernetes": "1.36", "config": dict(HEAD), "steps": [{"create": {"speed": 1}}]}, "speed"),
])  # fmt: skip
def test_a_document_that_is_not_an_example(document, says):
    with pytest.raises(UsageError, match=says):
        example_of(document, where="file.json")


def test_a_pod_that_cannot_start_is_skipped_with_the_reason():
    container = {"name": "c", "image": "x", "args": ["hold"], "resources": {"limits": {"memory": "4Ki"}}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    [tried] = judge_with().try_all([Example(kubelet=PLAIN, pods=(manifest,))])
    assert tried.skipped == "memory.max of the pod is 4096, too little to start in"


def test_small_pods_are_small():
    assert SMALL.memory <= 256 * MIB


def test_a_kubelet_gets_many_small_pods_between_two_starts():
    """With ten pods of any size a batch, three of four did not fit a machine of 8 CPUs and 3 GiB."""
    kinds = (Kind.PODS, Kind.RESIZE, Kind.RESTART)
    batches = Batches(seed=1, node=FAKE_FACTS, driver=CgroupDriver.SYSTEMD, releases=("1.36",), kinds=kinds, many=True)
    one = batches.batch(0)
    assert (one[0].kind, len(one)) == (Kind.PODS, 40)
    containers = [container for example in one for container in example.pods[0]["spec"]["containers"]]
    amounts = [container.get("resources", {}).get("requests", {}).get("memory", 0) for container in containers]
    assert 0 < max(Quantity.parse(str(amount)).value for amount in amounts) <= 200 << 20
    assert any("initContainers" in example.pods[0]["spec"] for example in one)
    assert {len(example.pods[0]["spec"]["containers"]) for example in one} == {1, 2}
