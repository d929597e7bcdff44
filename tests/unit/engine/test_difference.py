from dataclasses import replace

import pytest

from memqos.catalog.kubelet_config import settings_of
from memqos.engine.answer.difference import differences, differences_document, differences_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Reason, Refusal
from memqos.model.node import NodeFacts
from tests.manifests import pods_of

NODE = NodeFacts(memory=4 << 30, swap=1 << 30, cpus=4)
CONFIG = b"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.9
"""
POD = b"""apiVersion: v1
kind: Pod
metadata: {name: p, uid: u1}
spec:
  containers:
  - {name: c, resources: {requests: {memory: 100Mi, cpu: 100m}, limits: {memory: 200Mi}}}
"""


def planned(release, manifest=POD, config=CONFIG, *, reasons=True):
    return expect(
        pods_of(manifest, "p.yaml"),
        Kubelet.of(node=NODE, settings=settings_of(config, "k"), release=release),
        reasons=reasons,
    )


def short(changes):
    return {(str(one.subject), one.what): (one.before, one.after) for one in changes}


def test_nothing_changes_without_a_change():
    assert differences(planned("1.29"), planned("1.29")) == ()
    assert differences_text((), "1.29", "1.29") == "1.29 -> 1.29: nothing changes"


def test_from_122_to_127():
    """Only the formula of memory.high changed, and so the message."""
    assert short(differences(planned("1.22"), planned("1.27")))[
        "container c of pod default/p", "memory.high"
    ] == ("188743680", "199229440")  # fmt: skip
    assert short(differences(planned("1.22"), planned("1.27")))[
        "container c of pod default/p", "cri unified memory.high"
    ] == ("188743680", "199229440")  # fmt: skip


def test_from_135_to_136():
    found = short(differences(planned("1.35"), planned("1.36")))
    assert found == {
        ("kubepods", "memory.min"): ("104857600", "0"),
        ("burstable", "memory.min"): ("104857600", "not written (0)"),
        ("burstable", "memory.low"): ("not written (0)", "0"),
        ("pod default/p", "memory.min"): ("104857600", "not written (0)"),
        ("container c of pod default/p", "memory.min"): ("104857600", "0"),
        ("container c of pod default/p", "memory.low"): ("not written (0)", "0"),
        ("container c of pod default/p", "cri unified memory.min"): ("104857600", "0"),
        ("container c of pod default/p", "cri unified memory.low"): ("nothing", "0"),
    }


def test_a_pod_of_another_class_keeps_its_identity():
    guaranteed = POD.replace(b"requests: {memory: 100Mi, cpu: 100m}, limits: {memory: 200Mi}",
                             b"limits: {memory: 100Mi, cpu: 100m}")  # fmt: skip
    found = differences(planned("1.36"), planned("1.36", guaranteed))
    assert short(found)["pod default/p", "qos class"] == ("Burstable", "Guaranteed")
    assert short(found)["container c of pod default/p", "oom_score_adj"] == ("976", "-997")
    assert short(found)["pod default/p", "sandbox resources memory_limit_in_bytes"] == ("209715200", "104857600")
    assert not any("nothing" in (one.before, one.after) for one in found if one.what == "memory.max")


def test_reserved_cgroups_come_and_go():
    more = b"systemReserved: {memory: 100Mi}\nsystemReservedCgroup: /sys\n"
    more += b"enforceNodeAllocatable: [pods, system-reserved]\n"
    there, gone = planned("1.36", config=CONFIG + more), planned("1.36")
    assert short(differences(gone, there))["sys", "memory.max"] == ("nothing", "104857600")
    assert short(differences(there, gone))["sys", "memory.max"] == ("104857600", "nothing")


@pytest.mark.parametrize("turned", [False, True])
def test_a_pod_that_is_refused(turned):
    reason = Reason(rule="no room", revision="memory-manager v1.32", source="kubelet")
    plan = planned("1.36")
    refusal = Refusal(pod="u1", reason_name="TopologyAffinityError", message="…", reason=reason)
    without = replace(plan, pods=(), refusals=(refusal,))
    [change] = [
        one for one in differences(*((without, plan) if turned else (plan, without))) if one.what == "admission"
    ]
    texts = ("admitted", "refused: TopologyAffinityError")
    assert (change.before, change.after) == (texts[::-1] if turned else texts)
    assert (change.reason_before if turned else change.reason_after) == reason
    [gone] = [one for one in differences(plan, replace(plan, pods=())) if one.what == "admission"]
    assert (gone.before, gone.after) == ("admitted", "nothing")


def test_text_and_document():
    found = differences(planned("1.35"), planned("1.36"))
    text = differences_text(found, "1.35", "1.36")
    assert text.startswith("1.35 -> 1.36: 8 changes\n\nkubepods\n  memory.min: 104857600 -> 0\n    before ")
    assert text.count("\ncontainer c of pod default/p\n") == 1
    document = differences_document(found, "1.35", "1.36")
    assert (document["before"], document["after"], len(document["changes"])) == ("1.35", "1.36", 8)
    first = document["changes"][0]
    assert (first["subject"], first["what"], first["before"], first["after"]) == (
        "kubepods",
        "memory.min",
        "104857600",
        "0",
    )
    assert first["reason_before"]["revision"] == "memory-qos v1.27 shipped"
    # Without reasons none is printed.
    bare = differences(planned("1.35", reasons=False), planned("1.36", reasons=False))
    assert "before" not in differences_text(bare, "a", "b")
