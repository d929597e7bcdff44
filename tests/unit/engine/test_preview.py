"""The preview of 1.38: marked everywhere, from public texts only."""

from dataclasses import replace

import pytest

from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import plan_tree
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Release, Variant, revisions, titled
from memqos.engine.releases.table import Family
from memqos.errors import ManifestError, UnknownNameError
from memqos.model.knob import ABSENT, Knob
from memqos.model.node import CgroupVersion, KubeletSettings, NodeFacts, SwapBehavior
from tests.unit.engine.pods import NODE, amounts, container, pod

CONTROLLED = KubeletSettings(
    swap_behavior=SwapBehavior.WORKLOAD,
    feature_gates={"WorkloadControlledSwap": True},
    origin={"memorySwap.swapBehavior": "k.yaml:4"},
)


def plan_of(*pods, release="1.38-preview", node=NODE, settings=CONTROLLED):
    return expect(pods, Kubelet.of(node=node, release=release, settings=settings))


def swap_of(plan):
    [planned] = plan.pods
    return planned.containers[0].cgroup.knobs[Knob.MEMORY_SWAP_MAX]


def swapping(amount, **limits):
    return pod(container(dict(limits), {**limits, **({"swap": amount} if amount else {})}))


@pytest.mark.parametrize("text", ["1.38-preview", "v1.38-preview"])
def test_its_name(text):
    release = Release.parse(text)
    assert (str(release), release.is_preview) == ("1.38-preview", True)
    assert not Release(37).is_preview
    assert (titled("1.38-preview"), titled("1.37")) == ("1.38-preview (not released)", "1.37")


@pytest.mark.parametrize("text", ["1.38", "v1.38.0", "1.38.0-alpha.1"])
def test_the_release_itself_is_unknown(text):
    with pytest.raises(UnknownNameError, match="there is no Kubernetes release") as caught:
        Release.parse(text)
    assert "1.38-preview plans by its public texts." in str(caught.value)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("v1.38.0-alpha.1.23+abc-dirty", "1.38-preview"),
        ("v1.38.0", "1.38-preview"),
        ("v1.37.2", "1.37"),
        ("v1.32.13+k3s1", "1.32"),
    ],
)
def test_a_kubelet_built_for_it_follows_it(version, release):
    assert str(Release.of_kubelet(version)) == release


@pytest.mark.parametrize("version", ["v1.39.0-alpha.0", "v0.0.0-master", "abc"])
def test_a_kubelet_of_no_known_release(version):
    with pytest.raises(UnknownNameError, match="Kubernetes release"):
        Release.of_kubelet(version)


def test_every_output_marks_it_as_not_released():
    plan = plan_of(swapping("1Gi", memory="1Gi"))
    assert plan_tree(plan).startswith("Kubernetes 1.38-preview (not released), cgroup driver cgroupfs")
    document = plan_document(plan)
    assert document["release"] == "1.38-preview"
    assert document["remarks"][0]["about"] == "Kubernetes 1.38-preview"
    assert document["remarks"][0]["what"].startswith("not released: the rules of 1.37, and WorkloadControlledSwap by")
    assert "NodeReservationPolicy (kubernetes#142854)" in document["remarks"][0]["what"]
    assert revisions(Release(38), Variant.SHIPPED)[Family.SWAP] == "swap v1.38-preview"


@pytest.mark.parametrize(("given", "value"), [
    (swapping("1Gi", memory="2Gi", cpu="1"), "1073741824"),
    (swapping("0", memory="2Gi"), "0"),
    (swapping("", memory="2Gi"), "0"),
    (swapping("512Mi"), "536870912"),
])  # fmt: skip
def test_a_containers_own_limit_in_every_class(given, value):
    """KEP-5359, table of swap limit semantics: no limit is no swap, in Guaranteed pods and BestEffort ones too."""
    found = swap_of(plan_of(given))
    assert str(found.written) == value
    assert "KEP-5359, enhancements#5569, not released" in found.reason.rule


def test_nodes_without_swap_files_or_cgroup_v2():
    bare = replace(NODE, swap_controller=False)
    assert swap_of(plan_of(swapping("1Gi"), node=bare)).written is ABSENT
    old = replace(CONTROLLED, fail_cgroup_v1=False)
    v1 = NodeFacts(memory=8 << 30, swap=1 << 30, cgroup_version=CgroupVersion.V1)
    [planned] = plan_of(swapping("1Gi", memory="1Gi"), node=v1, settings=old).pods
    swap = planned.containers[0].cgroup.knobs[Knob.MEMORY_MEMSW_LIMIT_IN_BYTES]
    assert str(swap.written) == "1073741824"


@pytest.mark.parametrize("behavior", [None, SwapBehavior.NO_SWAP, SwapBehavior.LIMITED])
def test_other_behaviours_ignore_the_limit(behavior):
    plan = plan_of(swapping("1Gi", memory="2Gi", cpu="1"), settings=KubeletSettings(swap_behavior=behavior))
    assert str(swap_of(plan).written) == "0"
    assert f"limits.swap has no effect under {behavior or 'NoSwap'} (KEP-5359)" in [one.what for one in plan.remarks]


@pytest.mark.parametrize(("settings", "says"), [
    (KubeletSettings(swap_behavior=SwapBehavior.WORKLOAD), "needs the feature gate WorkloadControlledSwap, alpha"),
    (KubeletSettings(feature_gates={"NodeReservationPolicy": True}), "kubernetes#142854, a draft"),
    (KubeletSettings(feature_gates={"AllAlpha": True}), "kubernetes#142854, a draft"),
    (KubeletSettings(origin={"systemPartition": "k.yaml:3"}), "k.yaml:3: systemPartition: the system partition"),
    (KubeletSettings(origin={"memoryManagerPolicyOptions": "k.yaml:3"}), "need the feature gate MemoryManagerDriftTol"),
    (
        KubeletSettings(
            feature_gates={"MemoryManagerDriftTolerance": True}, origin={"memoryManagerPolicyOptions": "k.yaml:3"}
        ),
        "require memoryManagerPolicy Static",
    ),
])  # fmt: skip
def test_features_without_a_public_text_are_refused(settings, says):
    with pytest.raises(ManifestError) as caught:
        plan_of(settings=settings)
    assert says in str(caught.value)


def test_drift_tolerance_changes_no_value():
    settings = KubeletSettings(
        memory_manager_policy="Static",
        feature_gates={"MemoryManagerDriftTolerance": True},
        origin={"memoryManagerPolicyOptions": "k.yaml:3"},
        reserved_memory=((0, amounts({"memory": "100Mi"})),),
    )
    remarks = [one for one in plan_of(settings=settings).remarks if one.about == "memoryManagerPolicyOptions"]
    assert remarks[0].origin == "k.yaml:3"
    assert "recorded states are held to the exact amounts" in remarks[0].what


def test_earlier_releases_have_no_swap_limits():
    given = replace(swapping("1Gi"), file="pod.yaml")
    with pytest.raises(
        ManifestError, match=r"the API server of 1\.37 has no limits\.swap: it is alpha in 1\.38-preview"
    ):
        plan_of(given, release="1.37", settings=KubeletSettings())
    with pytest.raises(ManifestError, match="needs the feature gate WorkloadControlledSwap"):
        plan_of(release="1.37", settings=KubeletSettings(swap_behavior=SwapBehavior.WORKLOAD))
    asked = pod(container({"swap": "1Gi"}, {"swap": "1Gi"}, origin={"requests.swap": "pod.yaml:9"}))
    with pytest.raises(ManifestError, match=r"pod\.yaml:9: .*swap cannot be requested, only limited"):
        plan_of(asked)


def test_without_swap_it_is_as_137():
    given = pod(container({"memory": "256Mi"}, {"memory": "512Mi"}))
    now, before = plan_of(given, settings=KubeletSettings()), plan_of(given, release="1.37", settings=KubeletSettings())
    values = [{knob: one.value for knob, one in cgroup.knobs.items()} for cgroup in now.cgroups()]
    assert values == [{knob: one.value for knob, one in cgroup.knobs.items()} for cgroup in before.cgroups()]
