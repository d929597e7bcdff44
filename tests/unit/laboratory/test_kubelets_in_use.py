"""Which kubelets a run is about: the catalog's, or those of the user's binary and configurations."""

import pytest

from memqos.config.settings import resolve
from memqos.engine.releases.release import Variant
from memqos.errors import UnfitFileError, UnknownNameError, UsageError
from memqos.laboratory.kubelets_in_use import kubelets_in_use

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.fixture
def binary(tmp_path):
    """A program that prints a kubelet's version."""

    def made(said="Kubernetes v1.36.2"):
        path = tmp_path / "kubelet"
        path.write_text(f"#!/bin/sh\necho '{said}'\n")
        path.chmod(0o755)
        return path

    return made


def test_a_binary_s_release_selects_the_rules_and_documented_rules_are_left_out(binary):
    found = kubelets_in_use(resolve({"kubelet_binary": str(binary())}, {}))
    assert {one.release for one in found} == {"1.36"}
    assert {one.variant for one in found} == {Variant.SHIPPED}
    assert all(one.default for one in found)


def test_a_kubelet_under_test_gets_a_machine_with_more_cpus(binary):
    assert resolve({"kubelet_binary": str(binary())}, {}).topology == "eight-cpus"
    assert resolve({"kubelet_binary": str(binary()), "topology": "one-numa-node"}, {}).topology == "one-numa-node"
    assert resolve({}, {}).topology == "two-numa-nodes"


def test_a_binary_of_an_unrequested_release_is_a_usage_error(binary):
    with pytest.raises(UsageError, match=r"is 1\.36, not 1\.27"):
        kubelets_in_use(resolve({"kubelet_binary": str(binary()), "kubernetes": "1.27"}, {}))


@pytest.mark.parametrize("said", ["hello", "", "Kubernetes v2.0.0"])
def test_a_program_that_is_not_a_kubelet_is_unfit(binary, said):
    with pytest.raises(UnfitFileError, match="not a Kubernetes version"):
        kubelets_in_use(resolve({"kubelet_binary": str(binary(said))}, {}))


def test_a_build_of_the_next_release_is_judged_by_its_preview(binary):
    found = kubelets_in_use(resolve({"kubelet_binary": str(binary("Kubernetes v1.38.0-alpha.1.23+abc-dirty"))}, {}))
    assert {one.release for one in found} == {"1.38-preview"}
    with pytest.raises(UnknownNameError, match=r"1\.39"):
        kubelets_in_use(resolve({"kubelet_binary": str(binary("Kubernetes v1.39.0-alpha.0"))}, {}))


def test_a_build_without_a_version_says_how_to_build_one(binary):
    said = "Kubernetes v0.0.0-master+$Format:%H$"
    with pytest.raises(UnfitFileError, match=r"make WHAT=cmd/kubelet"):
        kubelets_in_use(resolve({"kubelet_binary": str(binary(said))}, {}))


def test_a_script_whose_kubelet_is_only_in_the_machine_is_told_why(binary, tmp_path):
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\nexec /opt/none/kubelet --feature-gates=A=true "$@"\n')
    script.chmod(0o755)
    with pytest.raises(UnfitFileError, match=r"/opt/none/kubelet: not found.*answer --version here"):
        kubelets_in_use(resolve({"kubelet_binary": str(script)}, {}))
    given = {"kubelet_binary": str(binary()), "kubelet_upgrade": str(script)}
    with pytest.raises(UnfitFileError, match="--kubelet-upgrade: "):
        kubelets_in_use(resolve(given, {}))


def test_a_file_that_is_not_a_program_is_unfit(tmp_path):
    path = tmp_path / "kubelet"
    path.write_bytes(b"\x7fELF of another machine")
    path.chmod(0o755)
    with pytest.raises(UnfitFileError, match="cannot be run on this host"):
        kubelets_in_use(resolve({"kubelet_binary": str(path)}, {}))


def test_configurations_are_cases_in_each_release(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryThrottlingFactor: 0.8\n"
    )
    found = kubelets_in_use(resolve({"kubelet_config": [str(path)], "kubernetes": "1.36,1.37"}, {}))
    assert [one.id for one in found] == ["v1.36-mine", "v1.37-mine"]
    assert {str(one.settings.throttling_factor) for one in found} == {"4/5"}


def test_a_configuration_without_a_release_is_a_usage_error(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD)
    with pytest.raises(UsageError, match="needs a Kubernetes release, and none is given"):
        kubelets_in_use(resolve({"kubelet_config": [str(path)]}, {}))


def test_an_upgrade_is_to_another_release(binary, tmp_path):
    later = tmp_path / "later"
    later.write_text("#!/bin/sh\necho 'Kubernetes v1.37.0'\n")
    later.chmod(0o755)
    given = {"kubelet_binary": str(binary()), "kubelet_upgrade": str(later)}
    assert {one.release for one in kubelets_in_use(resolve(given, {}))} == {"1.36"}
    with pytest.raises(UsageError, match=r"--kubelet-upgrade: both kubelets are of 1\.36"):
        kubelets_in_use(resolve({**given, "kubelet_upgrade": given["kubelet_binary"]}, {}))


def test_an_upgrade_needs_a_kubelet_to_begin_with(binary):
    with pytest.raises(UsageError, match="--kubelet-binary PATH"):
        kubelets_in_use(resolve({"kubelet_upgrade": str(binary())}, {}))
