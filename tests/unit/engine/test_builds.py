"""Kubelets that are builds before a release, by their --version."""

import pytest

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import before_release
from tests.unit.engine.pods import NODE

HAS = "it has pull request 138139 (memory.high of containers without a limit)"
LACKS = "it does not have pull request 140267 (memory.low of kubepods)"


def judged(release):
    return f"it is a build before {release} and judged as that release: it may lack later changes"


@pytest.mark.parametrize(
    ("kubelet", "says"),
    [
        ("v1.37.0-alpha.0.1256+0123456789abcd", [judged("1.37.0"), HAS, LACKS]),
        ("1.37.0-alpha.0.12", [judged("1.37.0"), LACKS]),
        ("v1.37.0-alpha.0", [judged("1.37.0"), LACKS]),
        ("v1.37.0-alpha.2", [judged("1.37.0"), HAS]),
        ("v1.37.0-beta.0-3-gabcdef", [judged("1.37.0"), HAS]),
        ("v1.36.0-rc.1", [judged("1.36.0")]),
        ("v1.36.0-alpha.0.99-dirty", [judged("1.36.0")]),
    ],
)
def test_a_build_before_a_release_has_a_note(kubelet, says):
    assert before_release(kubelet) == "; ".join(says)
    plan = expect([], Kubelet.of(node=NODE, release=kubelet))
    assert [(one.about, one.what) for one in plan.remarks] == [("kubelet", "; ".join(says))]


@pytest.mark.parametrize(
    "kubelet",
    ["1.37", "v1.37.0", "v1.34.1+k3s1", "v1.30.4-eks-a737599", "v1.29.7-gke.1008000", "alpha", "", "1.37.0-rc"],
)
def test_releases_and_vendors_builds_of_them_are_not(kubelet):
    assert before_release(kubelet) == ""
