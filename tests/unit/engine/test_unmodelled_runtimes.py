"""Protection, throttling and OOM kills where a runtime is not modelled: containers are left out by name.

A container with 64 MiB of request and 200 MiB of limit beside one that asks for no memory. A file that the message
names in unified is known of every OCI runtime, since the specification demands those entries.
"""

from dataclasses import replace

import pytest

from memqos.engine.cgroup.protection import planned_protection, protection_document, protection_text
from memqos.engine.cgroup.throttle import slowing, slowing_document, slowing_text
from memqos.engine.cgroup.usage import in_sandbox, unanswered
from memqos.engine.cgroup.victims import shortages, shortages_document, shortages_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import BUNDLES, TRIXIE, Handler, Runtimes
from memqos.engine.translate.versions import traits_of, unmodelled_traits
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, ReservationPolicy
from tests.unit.engine.pods import NODE, ON, container, pod

YOUKI = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=unmodelled_traits("youki", "0.6"))
POUCH = Runtimes(cri=unmodelled_traits("pouch", "1", cri=True), oci=traits_of("runc", "1.3.6"))
RUNSC = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of("runsc", "20240729"))
KATA = Runtimes(cri=traits_of("docker", "28.0"), oci=traits_of("kata", "3.20"))
APP, SIDE = container({"memory": "64Mi"}, {"memory": "200Mi"}, name="app"), container(name="side")
WEB = pod(APP, SIDE, name="web")
NAMES = ("container app of pod default/web", "container side of pod default/web")
ONE_SANDBOX = (
    "runsc 20240729 runs all containers of a pod in one sandbox: the container's own cgroup is empty and limits "
    "nothing, the pod's limit counts"
)
BY_OCI = "youki 0.6 is not modelled, and the OCI runtime specification does not specify this file"
BY_CRI = "pouch 1 is not modelled, and CRI does not specify this file"


def planned(runtimes, *pods, release="1.35", settings=ON):
    kubelet = Kubelet.of(node=NODE, settings=settings, release=release, driver=CgroupDriver.SYSTEMD, runtimes=runtimes)
    return expect(pods or [WEB], kubelet), kubelet


def left_out(rows):
    return {one["subject"]: one["not_modelled"] for one in rows if "not_modelled" in one}


@pytest.mark.parametrize(
    ("runtimes", "whys"),
    [
        (RUNSC, (ONE_SANDBOX, ONE_SANDBOX)),
        (KATA, ("kata 3.20 runs all containers of a pod in one virtual machine, and the pod's limit counts",) * 2),
        (POUCH, (f"memory.min, memory.low: {BY_CRI}",) * 2),
        (YOUKI, (f"memory.low: {BY_OCI}", f"memory.min, memory.low: {BY_OCI}")),
    ],
)
def test_protection_names_containers_that_are_not_modelled(runtimes, whys):
    found = planned_protection(*planned(runtimes))
    assert left_out(protection_document(found)) == dict(zip(NAMES, whys, strict=True))
    text = protection_text(found)
    for name, why in zip(NAMES, whys, strict=True):
        assert f"\n{name}\n  not modelled: {why}" in text


def test_modelled_containers_are_not_left_out():
    plan, kubelet = planned(TRIXIE)
    assert unanswered(plan, kubelet, tuple(Knob)) == ()
    assert left_out(protection_document(planned_protection(plan, kubelet))) == {}
    assert "not modelled" not in protection_text(planned_protection(plan, kubelet))
    assert "left_out" not in shortages_document(shortages(plan, kubelet))[0]


def test_a_single_container_sandbox_holds_its_container():
    alone = Runtimes(cri=BUNDLES, oci=traits_of("runsc", "20260817"))
    assert (in_sandbox(alone), in_sandbox(TRIXIE)) == ("", "")
    assert in_sandbox(RUNSC) == ONE_SANDBOX


def test_the_use_of_a_container_in_a_sandbox_is_its_limit_and_counts_for_its_pod():
    rows = {str(one.subject): one for one in planned_protection(*planned(RUNSC))}
    above = rows["pod default/web"]
    assert (above.configured.usage, rows[NAMES[0]].use) == (209715200, "assumed: all of its memory limit")
    assert above.unsure.startswith("the sandbox's own usage comes on top")
    assert f"  not certain: {above.unsure}" in protection_text(tuple(rows.values()))


def test_a_refused_container_is_named_nowhere():
    """CRI-O refuses a limit below 512 KiB; it makes no cgroup then, whatever the OCI runtime is."""
    crio = Runtimes(cri=traits_of("cri-o", "1.30"), oci=unmodelled_traits("youki", "0.6"))
    tiny = container({"memory": "128"}, {"memory": "128"}, name="tiny")
    plan, kubelet = planned(crio, pod(tiny, SIDE, name="bad"))
    assert plan.pods[0].containers[0].refusal
    assert [str(one.subject) for one in unanswered(plan, kubelet, (Knob.MEMORY_LOW,))] == [
        "container side of pod default/bad"
    ]


def test_pods_of_a_class_alone_are_left_out():
    kinds = Runtimes(cri=TRIXIE.cri, oci=TRIXIE.oci, handlers={"gvisor": Handler(oci=traits_of("runsc", "20240729"))})
    plan, kubelet = planned(kinds, pod(APP, name="plain"), pod(APP, name="boxed", runtime_class_name="gvisor"))
    assert [str(one.subject) for one in unanswered(plan, kubelet, (Knob.MEMORY_HIGH,))] == [
        "container app of pod default/boxed"
    ]
    [shortage, *_] = shortages(plan, kubelet)
    assert [str(one.subject) for one in shortage.victims] == ["container app of pod default/plain"]
    [boxed] = shortage.left_out
    assert boxed.why == (f"{ONE_SANDBOX}; a kill takes the whole sandbox, and its place in this order is not modelled")
    [document, *_] = shortages_document((shortage,))
    assert document["left_out"] == [
        {"subject": "container app of pod default/boxed", "path": boxed.path, "not_modelled": boxed.why}
    ]
    assert f"  container app of pod default/boxed\n    not modelled: {boxed.why}" in shortages_text((shortage,))


def test_protection_next_to_an_unmodelled_container_is_uncertain():
    """Under 1.36 the message resets memory.min and memory.low of the second, and has no memory.min of the first."""
    tiered = replace(ON, memory_reservation_policy=ReservationPolicy.TIERED)
    rows = {str(one.subject): one for one in planned_protection(*planned(YOUKI, release="1.36", settings=tiered))}
    app, side = (rows[name] for name in NAMES)
    assert (app.not_modelled, app.unsure) == (f"memory.min: {BY_OCI}", "")
    assert (side.not_modelled, str(side.configured.low)) == ("", "0")
    assert side.unsure == "computed as if app of its pod claimed nothing, which is not modelled"
    assert [one["unsure"] for one in protection_document((app, side)) if "unsure" in one] == [side.unsure]
    assert f"  not certain: {side.unsure}" in protection_text((side,))


def test_throttling_names_containers_whose_high_is_not_modelled():
    plan, kubelet = planned(YOUKI)
    found, others = slowing(plan), unanswered(plan, kubelet, (Knob.MEMORY_HIGH,))
    assert [one.high for one in found] == [195452928]
    document = slowing_document(found, others)
    assert left_out(document) == {NAMES[1]: f"memory.high: {BY_OCI}"}
    assert slowing_text(found, others).endswith(f"\n{NAMES[1]}\n  not modelled: memory.high: {BY_OCI}")
    boxed, kubelet = planned(RUNSC)
    text = slowing_text(slowing(boxed), unanswered(boxed, kubelet, (Knob.MEMORY_HIGH,)))
    assert f"\n{NAMES[0]}\n{NAMES[1]}\n  not modelled: {ONE_SANDBOX}\n" in text
    assert text.endswith("No other container and no pod has a memory.high: nothing is slowed.")


def test_an_unmodelled_limit_is_not_a_missing_limit():
    """A burstable container without a limit has memory.high by the node's memory; its memory.max is not asked for."""
    plan, _ = planned(YOUKI, pod(container({"memory": "64Mi"}, name="app"), name="web"))
    found = slowing(plan)
    [row] = slowing_document(found)
    assert (row["end"], row["endNotModelled"]) == (None, f"memory.max: {BY_OCI}")
    text = slowing_text(found)
    assert f"  not modelled: memory.max: {BY_OCI}" in text
    assert "memory.max is not set" not in text


def test_a_group_that_is_not_modelled_is_null():
    plan, kubelet = planned(POUCH)
    found = shortages(plan, kubelet)
    app = shortages_document(found)[0]["victims"][0]
    assert (app["subject"], app["group"]) == (NAMES[0], None)
    assert app["not_modelled"] == f"memory.oom.group: {BY_CRI}"
    assert f"     not modelled: memory.oom.group: {BY_CRI}" in shortages_text(found)
