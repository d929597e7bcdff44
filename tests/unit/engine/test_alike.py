"""Pods that are alike get the same reasons as alone, with their own names and places."""

import dataclasses
import json

import pytest
from hypothesis import given

from memqos.engine.answer.document import JsonText, Slotted, Template, cgroup_document, plan_document, plan_parts
from memqos.engine.answer.explain import plan_tree
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.pod.alike import Explained, nameless, names_of, slot
from memqos.model.knob import Knob
from memqos.model.pod import CRITICAL_PRIORITY, Container, ContainerKind, Pod
from memqos.model.quantity import Quantity
from tests.unit.engine.anything import FACTORS, PODS, POLICIES, RELEASES
from tests.unit.engine.pods import NODE, ON, amounts, container, equal, pod, resources

SIDECAR = container({"memory": "10Mi"}, name="beside", kind=ContainerKind.SIDECAR)


def kubelet(release="1.36", settings=ON):
    return Kubelet.of(node=NODE, settings=settings, release=release)


def placed(one, file):
    """The pod with a separate line in this file for each amount."""
    lines = {"limits.memory": f"{file}:7", "requests.memory": f"{file}:8"}
    return dataclasses.replace(
        one,
        file=file,
        origin={"overhead.memory": f"{file}:3", "resources.limits.memory": f"{file}:4"},
        **{
            kind: tuple(dataclasses.replace(own, origin=lines) for own in getattr(one, kind))
            for kind in ("init_containers", "containers", "ephemeral_containers")
        },
    )


def explained(planned):
    """The JSON of one pod."""
    document = plan_document(planned)
    above = ("node", "qos", "reserved")
    return document["pods"], [one for one in document["cgroups"] if one["level"] not in above]


TWO = (container({"memory": "1Gi"}, {"memory": "2Gi"}, name="a"), container({"memory": "1Gi"}, {"memory": "2Gi"}))
ALIKE = {
    "two containers alike": {"containers": TWO},
    "one of them has no limit": {"containers": (TWO[0], container(name="free"))},
    "Guaranteed": {"containers": (equal("1", "1Gi"),)},
    "pod-level limit": {"containers": TWO, "resources": resources(limits={"memory": "5Gi"})},
    "overhead": {"containers": TWO, "overhead": amounts({"memory": "64Mi"})},
    "behind a sidecar": {"containers": TWO, "init_containers": (SIDECAR,)},
    "with an ephemeral one": {"containers": TWO, "ephemeral_containers": (container(name="e"),)},
    "node critical": {"priority": CRITICAL_PRIORITY + 1000, "priority_class_name": "system-node-critical"},
}


@pytest.mark.parametrize("release", ["1.22", "1.28", "1.36", "1.37"])
@pytest.mark.parametrize("traits", ALIKE.values(), ids=ALIKE)
def test_each_pod_has_the_reasons_that_it_has_alone(traits, release):
    first = placed(Pod(name="p0", uid="u0", **{"containers": TWO[:1], **traits}), "a.yaml")
    renamed = tuple(dataclasses.replace(one, name=f"x-{one.name}") for one in first.containers)
    second = placed(dataclasses.replace(first, name="p1", uid="u1", namespace="n", containers=renamed), 'b "é".yaml')
    together = expect([first, second], kubelet(release))
    for one, planned in zip((first, second), together.pods, strict=True):
        alone = expect([one], kubelet(release))
        assert explained(dataclasses.replace(together, pods=(planned,))) == explained(alone)
    text = json.dumps(plan_document(together))
    assert slot(0)[0] not in json.loads(text).__repr__()
    assert "a.yaml" in text
    assert 'b \\"' in text


def streamed(plan):
    texts = JsonText()
    parts = plan_parts(plan, slotted=True)
    return {
        name: [json.loads(texts.text(one)) for one in part]
        if hasattr(part, "__next__")
        else json.loads(texts.text(part))
        for name, part in parts.items()
    }


@given(PODS, RELEASES, FACTORS, POLICIES)
def test_the_stream_equals_the_document(pods, release, factor, policy):
    settings = dataclasses.replace(ON, throttling_factor=factor, memory_reservation_policy=policy)
    several = [*pods, *(dataclasses.replace(one, uid=f"o-{one.uid}", name=f"o-{one.name}") for one in pods)]
    plan = expect(several, kubelet(release, settings))
    assert streamed(plan) == plan_document(plan)


def test_more_pods_than_the_cache_holds_are_streamed():
    several = [pod(container({"memory": f"{number}Mi"}), name=f"p{number}") for number in range(1, 1100)]
    plan = expect(several, kubelet())
    assert streamed(plan)["pods"] == plan_document(plan)["pods"]


def test_a_plan_without_reasons_is_streamed_without_them():
    plan = expect([pod(equal("1", "1Gi"))], kubelet(), reasons=False)
    assert streamed(plan) == plan_document(plan)


@pytest.mark.parametrize("traits", [{"priority_class_name": slot(0)}, {"overhead": {slot(0): Quantity.parse("1")}}])
def test_text_that_looks_like_a_slot_is_kept(traits):
    several = [pod(equal("1", "1Gi"), name=name, **traits) for name in ("a", "b")]
    planned = expect(several, kubelet()).pods
    found = [one.cgroup.knobs[Knob.CPU_WEIGHT].reason.rule for one in planned]
    assert ["pod 'a'" in found[0], "pod 'b'" in found[1]] == [True, True]
    assert "Guaranteed pod gets" in planned[0].containers[0].oom_score_adj_reason.rule


def test_a_name_that_looks_like_a_slot_goes_into_its_own():
    several = [pod(equal("1", "1Gi"), name=name) for name in ("a", slot(1))]
    found = [one.cgroup.knobs[Knob.CPU_WEIGHT].reason.rule for one in expect(several, kubelet()).pods]
    assert f"pod '{slot(1)}'" in found[1]


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_that_looks_like_a_slot_is_streamed(count):
    """A single pod has no slots; for two that are alike the file's name goes into one."""
    own = placed(pod(container(limits={"memory": "1Gi"})), slot(0))
    several = [dataclasses.replace(own, name=f"p{number}", uid=f"u{number}") for number in range(count)]
    plan = expect(several, kubelet())
    text = json.dumps(plan_document(plan))
    assert streamed(plan) == json.loads(text)
    assert json.dumps(f"{slot(0)}:7") in text


def test_a_tree_is_made_without_reasons(monkeypatch):
    plan = expect([pod(container(limits={"memory": "1Gi"}), name=name) for name in ("a", "b")], kubelet())
    monkeypatch.setattr(Explained, "__getitem__", lambda _self, knob: pytest.fail(f"a reason for {knob} is made"))
    assert "1024 MiB" in plan_tree(plan)


def test_names_and_slots_are_in_one_order():
    one = placed(pod(*TWO, init_containers=(SIDECAR,), ephemeral_containers=(container(name="e"),)), "a.yaml")
    bare = nameless(one, 2)
    names = names_of(one, 2)
    assert len(names) == len(set(names_of(bare, 2))) == 4 + 2 + 4 * 3
    assert names_of(bare, 2) == tuple(map(slot, range(18)))
    assert names[6:9] == ("c", "a.yaml:7", "a.yaml:8")
    assert [own.kind for own in bare.all_containers] == [own.kind for own in one.all_containers]


def test_likeness_ignores_only_fields_that_no_rule_reads():
    """A new field counts until it is listed as unread by rules."""
    changes = {
        "static": True,
        "priority": 7,
        "priority_class_name": "x",
        "resources": resources({"memory": "1Gi"}),
        "overhead": amounts({"cpu": "1"}),
    }
    same = {"name", "namespace", "uid", "file", "origin", "controller", "node", "phase"}
    lists = {"containers", "init_containers", "ephemeral_containers"}
    assert {one.name for one in dataclasses.fields(Pod)} >= {*changes, *same, *lists}
    base = pod(equal("1", "1Gi"))
    for name, value in changes.items():
        plan = expect([base, dataclasses.replace(base, name="q", uid="q", **{name: value})], kubelet())
        assert plan.pods[0].containers[0].explain_oom_score_adj != plan.pods[1].containers[0].explain_oom_score_adj
    assert {"kind", "resources"} <= {one.name for one in dataclasses.fields(Container)}


def test_amounts_with_another_spelling_are_quoted_as_written():
    several = [pod(container(None, {"memory": text}), name=name) for name, text in (("a", "1Gi"), ("b", "1024Mi"))]
    found = [
        one.cgroup.knobs[Knob.MEMORY_MAX].reason.because[0].inputs[0].value for one in expect(several, kubelet()).pods
    ]
    assert found == ["1Gi", "1024Mi"]


def test_files_that_are_not_planned_have_no_reason():
    knobs = expect([pod(equal("1", "1Gi"))], kubelet()).pods[0].cgroup.knobs
    assert Knob.CPUSET_MEMS not in knobs
    with pytest.raises(KeyError):
        knobs[Knob.CPUSET_MEMS]
    assert (
        len(knobs)
        == len(list(knobs))
        == len(cgroup_document(expect([pod(equal("1", "1Gi"))], kubelet()).pods[0].cgroup)["knobs"])
    )


@pytest.mark.parametrize(
    "value", [{}, [], {"a": {}, "b": []}, [1, 2.5, None, True, "é\n"], {"a": [{"b": ({"c": 1},)}]}]
)
@pytest.mark.parametrize("depth", [0, 2])
def test_text_is_that_of_json(value, depth):
    assert JsonText().text(value, depth) == json.dumps(value, indent=1).replace("\n", "\n" + depth * " ")


def test_a_template_has_none_inside():
    inner = Slotted(Template("text"))
    with pytest.raises(TypeError):
        JsonText().text(Slotted(Template([inner])))
