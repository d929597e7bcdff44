import dataclasses

import pytest

from memqos.catalog.kubelets import load_kubelets
from memqos.catalog.pods import load_pod_catalog
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupVersion, NodeFacts, NumaNode

CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
FIELDS = {"purpose": "x", "kubernetes": "1.27", "as": "shipped", "config": "k.yaml"}


def folder(tmp_path, **fields):
    """A root with one kubelet of these fields; None leaves a field out."""
    (tmp_path / "fixtures" / "kubelet").mkdir(parents=True)
    (tmp_path / "fixtures" / "kubelet" / "k.yaml").write_text(CONFIG)
    lines = [f'{name} = "{text}"' for name, text in (FIELDS | fields).items() if text is not None]
    (tmp_path / "fixtures" / "kubelets.toml").write_text("\n".join(["[one]", *lines]))
    return tmp_path


def test_every_revision_of_memory_qos_is_in_the_catalogue():
    kubelets = load_kubelets()
    assert {(one.release, one.variant.value) for one in kubelets} >= {
        ("1.22", "shipped"), ("1.27", "shipped"), ("1.27", "documented"), ("1.36", "shipped"), ("1.37", "shipped")
    }  # fmt: skip
    assert len({one.id for one in kubelets}) == len(kubelets)


@pytest.mark.parametrize("kubelet", load_kubelets(), ids=lambda one: one.id)
def test_each_kubelet_starts_and_plans_the_catalogue(kubelet):
    plan = expect(
        load_pod_catalog(),
        Kubelet.of(
            node=NodeFacts(
                memory=2 << 30,
                swap=512 << 20,
                cpus=2,
                numa_nodes=tuple(NumaNode(id=number, memory=1 << 30, cpus=(number,)) for number in (0, 1)),
                cgroup_version=kubelet.cgroup or CgroupVersion.V2,
            ),
            settings=kubelet.settings,
            release=kubelet.release,
            variant=kubelet.variant,
        ),
    )
    assert len(plan.reserved) == 2
    assert len(plan.pods) >= 14


@pytest.mark.parametrize("release", ["1.27", "1.29", "1.30", "1.36"])
def test_without_swap_every_release_accepts_the_configuration_and_swaps_nothing(release):
    """1.27 does not know NoSwap: such a case was a usage error."""
    [found] = [one for one in load_kubelets() if one.id == "v1.27"]
    case = dataclasses.replace(found, release=release).without_swap()
    node = NodeFacts(memory=2 << 30, swap=512 << 20, cpus=2, cgroup_version=CgroupVersion.V2)
    [pod] = [one for one in load_pod_catalog() if one.name == "burstable"]
    plan = expect([pod], Kubelet.of(node=node, settings=case.settings, release=release, variant=case.variant))
    [container] = plan.pods[0].containers
    assert str(container.cgroup.knobs[Knob.MEMORY_SWAP_MAX].value) == "0"


def test_one_from_a_folder(tmp_path):
    (one,) = load_kubelets(folder(tmp_path))
    assert (one.id, one.purpose, one.release, one.variant) == ("one", "x", "1.27", Variant.SHIPPED)
    assert one.cgroup is None


def test_a_kubelet_may_be_for_one_version_of_cgroups(tmp_path):
    root = folder(tmp_path, cgroup="v1")
    assert [one.cgroup for one in load_kubelets(root)] == [CgroupVersion.V1]
    assert [one.id for one in load_kubelets(root, on=CgroupVersion.V1)] == ["one"]
    assert load_kubelets(root, on=CgroupVersion.V2) == ()
    shipped = {version: {one.id for one in load_kubelets(on=version)} for version in CgroupVersion}
    assert "v1.24" in shipped[CgroupVersion.V1] - shipped[CgroupVersion.V2]
    assert "v1.27-documented" in shipped[CgroupVersion.V2] - shipped[CgroupVersion.V1]
    assert "v1.27" in shipped[CgroupVersion.V1] & shipped[CgroupVersion.V2]


def test_some_kubelets_are_not_in_the_default_run():
    assert {one.id for one in load_kubelets(on=CgroupVersion.V2) if one.default and not one.chapter} == {
        "v1.36-tiered",
        "v1.37-tiered",
    }


def test_a_kubelet_may_be_for_one_chapter(tmp_path):
    (one,) = load_kubelets(folder(tmp_path, chapter="numa"))
    assert one.chapter == "numa"
    assert {one.id: one.chapter for one in load_kubelets() if one.chapter and one.chapter != "swap"} == {
        "v1.36-static": "numa",
        "v1.36-static-draft": "numa",
        "v1.36-static-groups": "numa",
        "v1.36-off": "lifecycle",
        "v1.37-off": "lifecycle",
        "v1.27-low-factor": "throttling",
        "v1.32-single-process": "limits",
    }


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"as": None}, ManifestError, r"kubelets.toml:1: one: missing required field 'as'"),
        ({"more": "x"}, ManifestError, r"kubelets.toml:6: one: unknown field 'more'. Known: purpose, kubernetes, as"),
        ({"cgroup": "v3"}, ManifestError, r"kubelets.toml:6: one: 'cgroup' must be one of v1, v2, not 'v3'"),
        ({"as": "wished"}, ManifestError, "documented, shipped, mended, draft"),
        ({"kubernetes": "1.99"}, UnknownNameError, r"kubelets.toml:3: one.kubernetes: .*1.99"),
        ({"config": "missing.yaml"}, UsageError, "no such file"),
    ],
)
def test_refused(tmp_path, fields, error, says):
    with pytest.raises(error, match=says):
        load_kubelets(folder(tmp_path, **fields))


def test_not_toml(tmp_path):
    root = folder(tmp_path)
    (root / "fixtures" / "kubelets.toml").write_text("[")
    with pytest.raises(ManifestError, match="not TOML"):
        load_kubelets(root)
