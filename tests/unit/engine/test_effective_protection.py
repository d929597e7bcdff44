"""Effective protection in a planned tree, with literal amounts."""

from dataclasses import replace

import pytest

from memqos.engine.cgroup.protection import planned_protection, protection_document, protection_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.runtimes import TRIXIE, Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Bytes
from memqos.model.node import CgroupDriver, KubeletSettings
from memqos.model.pod import ContainerKind
from tests.unit.engine.pods import NODE, ON, container, pod

MIB = 1 << 20
WEB = pod(container({"memory": "64Mi"}, {"memory": "200Mi"}), name="web")
CRUN = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.8.1"))


def planned(*pods, release="1.35", settings=ON, node=NODE, **more):
    """A plan and its kubelet."""
    kubelet = Kubelet.of(node=node, settings=settings, release=release, driver=CgroupDriver.SYSTEMD, **more)
    return expect(pods or [WEB], kubelet), kubelet


def rows(planned, usage=None):
    return {str(one.subject): one for one in planned_protection(*planned, usage)}


def test_assumed_usage_is_the_limit_and_is_named():
    found = rows(planned())
    own = found["container c of pod default/web"]
    assert (own.configured.usage, own.use) == (200 * MIB, "assumed: all of its memory.max")
    assert (own.recursive.min, own.plain.min, own.limited.min) == (Bytes(64 * MIB),) * 3
    assert own.recursive.protection.value == "partial"
    assert (found["kubepods.slice"].configured.usage, found["kubepods.slice"].use) == (
        200 * MIB,
        "sum of the cgroups below",
    )
    assert found["pod default/web"].limited is None


def test_given_usage_below_the_protection_is_fully_protected():
    own = rows(planned(), {("uid-web", "c"): 32 * MIB})["container c of pod default/web"]
    assert own.use == "given"
    assert own.recursive.min == Bytes(32 * MIB)
    assert own.recursive.protection.value == "hard"
    # At its pod's own limit a container gets its configured protection, even if it uses less.
    assert own.limited.min == Bytes(64 * MIB)


def test_unclaimed_protection_is_shared_only_with_memory_recursiveprot():
    """A pod with 64 MiB of memory.min, of which one container uses 16: the other gets the rest, or not."""
    two = pod(container({"memory": "64Mi"}), container(name="d"), name="two")
    found = rows(planned(two), {("uid-two", "c"): 16 * MIB, ("uid-two", "d"): 100 * MIB})
    other = found["container d of pod default/two"]
    assert (other.recursive.min, other.plain.min) == (Bytes(48 * MIB), Bytes(0))


def test_crun_puts_a_scope_without_protection_in_between():
    found = rows(planned(runtimes=CRUN), {("uid-web", "c"): 64 * MIB})
    scope, own = found["scope of container c of pod default/web"], found["container c of pod default/web"]
    assert str(own.path) == f"{scope.path}/container"
    assert scope.configured.min == Bytes(0)
    assert (own.recursive.min, own.plain.min, own.limited.min) == (Bytes(64 * MIB), Bytes(0), Bytes(0))
    newer = Runtimes(cri=TRIXIE.cri, oci=traits_of("crun", "1.18"))
    own = rows(planned(runtimes=newer), {("uid-web", "c"): 64 * MIB})["container c of pod default/web"]
    assert own.plain.min == own.limited.min == Bytes(64 * MIB)


def test_unknown_usage():
    loose = pod(container(), container({"memory": "8Mi"}, name="d"), name="loose")
    done = pod(container({"memory": "8Mi"}, {"memory": "8Mi"}, kind=ContainerKind.INIT, name="i"), name="done")
    found = rows(planned(loose, done))
    assert found["container c of pod default/loose"].use.startswith("assumed: nothing, since it has neither")
    assert found["container d of pod default/loose"].use == "assumed: all of its memory.min"
    assert found["container i of pod default/done"].use.startswith("assumed: nothing, since an init container")
    assert found["container i of pod default/done"].recursive.protection.value == "none"


@pytest.mark.parametrize(("root", "above"), [("", []), ("/pods", ["pods.slice"])])
def test_without_qos_cgroups_containers_have_no_pod_above(root, above):
    """Directly below the root a container gets its configured protection; below another cgroup its parent has zero."""
    gates = {"MemoryQoS": True}
    settings = KubeletSettings(
        cgroups_per_qos=False, enforce_node_allocatable=(), cgroup_root=root, feature_gates=gates
    )
    found = rows(planned(settings=settings))
    assert list(found) == [*above, "container c of pod default/web"]
    own = found["container c of pod default/web"]
    assert (own.recursive.min, own.limited) == (Bytes(0 if root else 64 * MIB), None)


def test_a_cgroup_root_without_protection_removes_all_protection():
    found = rows(planned(settings=KubeletSettings(cgroup_root="/a/b", feature_gates={"MemoryQoS": True})))
    assert next(iter(found)) == "a-b-kubepods.slice"
    assert found["a-b-kubepods.slice"].configured.min == Bytes(64 * MIB)
    assert {one.recursive.min for one in found.values()} == {Bytes(0)}


def test_an_unknown_container_is_an_error():
    with pytest.raises(KeyError, match="uid-web/x"):
        planned_protection(*planned(), {("uid-web", "x"): 1})


def test_text_and_document():
    found = planned_protection(*planned(runtimes=CRUN, node=replace(NODE, page_size=65536)))
    text = protection_text(found)
    assert "  memory.min 0: 67108864 effective, 0 without memory_recursiveprot, 0 at the pod's limit\n" in text
    assert "  reclaim: takes its usage above the protection" in text
    [*_, own] = protection_document(found)
    assert own["use"] == "assumed: all of its memory.max"
    assert own["plain"] == {"min": "0", "low": "0", "protection": "none"}
    assert own["configured"] == {"min": "67108864", "low": "0"}
    assert protection_document(found)[0]["limited"] is None


def test_a_refused_container_has_no_protection():
    refusing = Runtimes(cri=traits_of("cri-o", "1.36"), oci=traits_of("runc", "1.1.15"))
    tiny = pod(container({"memory": "8Mi"}, {"memory": "8Mi"}), name="tiny")
    found = rows(planned(tiny, WEB, runtimes=refusing))

    assert "container c of pod default/web" in found
    assert "container c of pod default/tiny" not in found


EVEN = pod(container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}), name="even")


def test_page_cache_alone_can_kill_where_memory_min_equals_memory_max():
    """Seen with a Guaranteed pod of 512Mi whose program had 300 MiB and wrote 500 MiB of files: kubernetes#137880."""
    found = planned_protection(*planned(EVEN))
    assert [str(one.subject) for one in found if one.cache_kills] == ["container c of pod default/even"]
    assert "  warning: memory.min equals memory.max, so at the pod's limit none of its page cache" in protection_text(
        found
    )
    assert [one["cacheKills"] for one in protection_document(found)].count(True) == 1


@pytest.mark.parametrize(
    ("one", "more"),
    [
        (WEB, {}),
        # memory.min is zero under the policy None.
        (EVEN, {"release": "1.36"}),
        # crun's scope has no protection, so nothing below it is protected at the pod's limit.
        (EVEN, {"runtimes": CRUN}),
        # The container reaches its own limit first, where its own protection does not count.
        (replace(EVEN, overhead=container({"memory": "8Mi"}).resources.requests), {}),
        (pod(container()), {}),
    ],
    ids=["burstable", "no-policy", "bare-scope", "overhead", "best-effort"],
)
def test_reclaimable_page_cache_causes_no_warning(one, more):
    found = planned_protection(*planned(one, **more))
    assert not any(row.cache_kills for row in found)
    assert "warning" not in protection_text(found)


def test_each_container_protected_up_to_its_limit_has_a_warning():
    two = pod(
        container({"memory": "64Mi", "cpu": "1"}, {"memory": "64Mi", "cpu": "1"}),
        container({"memory": "32Mi", "cpu": "1"}, {"memory": "48Mi", "cpu": "1"}, name="d"),
        name="two",
    )
    assert [str(one.subject) for one in planned_protection(*planned(two)) if one.cache_kills] == [
        "container c of pod default/two"
    ]
