"""The kubelets of a release, even if the catalogue does not name it."""

import pytest

from memqos.catalog.kubelets import load_kubelets, select_kubelets
from memqos.catalog.pods import load_pod_catalog
from memqos.errors import UnknownNameError
from memqos.model.node import CgroupVersion
from memqos.node.fake import fake_node

KUBELETS = load_kubelets(on=CgroupVersion.V2)


@pytest.mark.parametrize(
    ("releases", "ids"),
    [
        (["1.27"], ["v1.27-documented", "v1.27"]),
        (["1.34"], ["v1.34-documented", "v1.34"]),
        (["v1.34.2", "1.34"], ["v1.34-documented", "v1.34"]),
        (["1.24"], ["v1.24"]),
        (["1.36", "1.22"], ["v1.22", "v1.36-none", "v1.36-tiered"]),
        (["1.27", "1.30"], ["v1.27-documented", "v1.30-documented", "v1.27", "v1.30"]),
    ],
)
def test_a_release_has_the_kubelets_of_the_last_change_before_it(releases, ids):
    assert [kubelet.id for kubelet in select_kubelets(KUBELETS, releases) if not kubelet.chapter] == ids


@pytest.mark.parametrize(
    ("release", "chapter", "ids"),
    [
        ("1.24", "swap", ["v1.24-limited-swap", "v1.24-unlimited-swap"]),
        ("1.29", "swap", ["v1.29-limited-swap", "v1.29-unset-swap", "v1.29-unset-swap-documented"]),
        ("1.34", "swap", ["v1.34-limited-swap", "v1.34-unset-swap"]),
        ("1.35", "numa", []),
        ("1.36", "numa", ["v1.36-static", "v1.36-static-draft", "v1.36-static-groups"]),
        ("1.36", "lifecycle", ["v1.36-off"]),
        ("1.37", "lifecycle", ["v1.37-off"]),
    ],
)
def test_a_chapter_has_its_own_kubelets_of_the_last_change_before_a_release(release, chapter, ids):
    """Independent of later changes for other chapters."""
    assert [kubelet.id for kubelet in select_kubelets(KUBELETS, [release]) if kubelet.chapter == chapter] == ids


def test_no_release_is_every_kubelet():
    assert select_kubelets(KUBELETS, []) == KUBELETS


def test_a_kubelet_of_cgroup_v1_is_used_for_later_releases():
    chosen = select_kubelets(load_kubelets(on=CgroupVersion.V1), ["1.25"])
    assert [kubelet.id for kubelet in chosen] == ["v1.25", "v1.25-limited-swap", "v1.25-unlimited-swap"]


@pytest.mark.parametrize("release", ["1.21", "1.99", "two"])
def test_a_release_without_rules_is_refused(release):
    with pytest.raises(UnknownNameError, match=f"--kubernetes: there is no Kubernetes release '{release}'"):
        select_kubelets(KUBELETS, [release], where="--kubernetes")


@pytest.mark.parametrize("minor", range(22, 38))
def test_every_release_has_rules_for_every_pod_of_the_catalogue(minor):
    for kubelet in select_kubelets(KUBELETS, [f"1.{minor}"]):
        assert kubelet.release == f"1.{minor}"
        assert fake_node().plan(load_pod_catalog(), kubelet).release == f"1.{minor}"
