"""Files of nodes in the forms of public tools (tests/cases/node-files): what `expect` plans by each."""

import json
from pathlib import Path

import pytest

from memqos.cli.main import run

CASES = Path(__file__).parents[2] / "cases" / "node-files"


@pytest.fixture
def told(capsys, monkeypatch):
    """Run `memqos expect pod.yaml` in the folder: the exit code, the plan or None, and standard error."""
    monkeypatch.chdir(CASES)

    def tell(*arguments):
        code = run(["expect", "pod.yaml", "--kubernetes", "1.34", *(str(one) for one in arguments), "--json"])
        streams = capsys.readouterr()
        return code, json.loads(streams.out) if streams.out else None, streams.err

    return tell


@pytest.fixture
def planned(told):
    """The values of each cgroup above the pods, by path, and standard error."""

    def plan(*arguments):
        code, document, err = told(*arguments)
        assert code == 0, err
        return {
            one["path"]: {name: knob["value"] for name, knob in one["knobs"].items()}
            for one in document["cgroups"]
            if "pod" not in one["path"].rpartition("/")[2].removeprefix("kubepods")
        }, err

    return plan


def memory_of(knobs):
    return knobs["memory.min"], knobs["memory.max"]


def test_a_configuration_after_a_document_marker(planned, tmp_path):
    (tmp_path / "marked.yaml").write_text(f"---\n{(CASES / 'kubespray.yaml').read_text()}")
    (tmp_path / "both.yaml").write_text(f"\ufeff--- # of the node\n{(CASES / 'kubespray.yaml').read_text()}")
    plain, _ = planned("--kubelet-config", "kubespray.yaml")
    assert memory_of(plain["/system.slice"]) == ("536870912", "536870912")
    assert memory_of(plain["/kube.slice"]) == ("268435456", "268435456")
    assert memory_of(plain["/kubepods.slice"]) == ("134217728", "8589934592")
    for name in ("marked.yaml", "both.yaml"):
        marked, _ = planned("--kubelet-config", tmp_path / name)
        assert marked == plain


def test_nodeadm_with_its_base(planned):
    found, err = planned("--kubelet-config", "nodeadm-base.json", "--kubelet-config", "nodeadm-user.yaml")
    assert memory_of(found["/runtime.slice"]) == ("936378368", "936378368")
    assert memory_of(found["/system.slice"]) == ("314572800", "314572800")
    assert memory_of(found["/kubepods.slice"]) == ("134217728", "7338983424")
    assert "nodeadm-user.yaml:2: NodeConfig: nodeadm merges this onto a configuration of its own" in err


def test_the_driver_that_a_tool_sets(planned):
    openshift, err = planned("--kubelet-config", "ocp-kubeletconfig.yaml")
    assert openshift["/kubepods.slice"]["memory.max"] == "5368709120"
    assert "with autoSizingReserved (the default from 4.21 on) the node computes its systemReserved" in err


def test_a_tool_sets_no_driver_onto_a_file(planned, tmp_path):
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "base.yaml").write_text(f"{head}cgroupDriver: cgroupfs\n")
    found, _ = planned("--kubelet-config", tmp_path / "base.yaml", "--kubelet-config", "ocp-kubeletconfig.yaml")
    assert found["/kubepods"]["memory.max"] == "5368709120"


def test_a_field_of_a_kubelet_before_1_22(planned):
    found, err = planned("--kubelet-config", "obsolete-field.yaml")
    # 8Gi - 1.8Gi, down to whole pages.
    assert found["/kubepods"]["memory.max"] == "6657196032"
    assert "obsolete-field.yaml:6: configTrialDuration: no kubelet that memqos knows has this field" in err


def test_an_unknown_field_below_others(planned, tmp_path):
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    text = "memorySwap: {qqq: 1}\nshutdownGracePeriodByPodPriority: [{priority: 1, zzz: 2}]\n"
    (tmp_path / "k.yaml").write_text(head + text)
    _, err = planned("--kubelet-config", tmp_path / "k.yaml")
    assert "k.yaml:3: memorySwap.qqq: no kubelet that memqos knows has this field" in err
    assert "k.yaml:4: shutdownGracePeriodByPodPriority[0].zzz: no kubelet that memqos knows has this field" in err


@pytest.mark.parametrize("option", ["--kubelet-config", "--kubelet-flags"])
@pytest.mark.parametrize("name", ["k3s-journal.txt", "k3s-journal-lines.txt"])
def test_the_flags_in_the_journal_of_k3s(planned, option, name):
    found, err = planned(option, name)
    assert found["/kubepods.slice"]["memory.max"] == "7516192768"
    assert err == ""


@pytest.mark.parametrize(
    "files", [("ocp-sizing.env", "ocp-kubelet.service"), ("ocp-kubelet.service", "ocp-sizing.env")]
)
def test_variables_of_another_file(planned, files):
    given = [word for name in files for word in ("--kubelet-flags", name)]
    found, err = planned("--kubelet-config", "ocp-kubeletconfig.yaml", *given)
    # 2Gi and 80m of 4 CPUs, in place of the file's 3Gi.
    assert found["/kubepods.slice"]["memory.max"] == "6442450944"
    assert found["/kubepods.slice"]["cpu.weight"] == "154"
    assert "SYSTEM_RESERVED" not in err


def test_a_missing_variable_is_named(told):
    code, _, err = told("--kubelet-config", "kubespray.yaml", "--kubelet-flags", "ocp-kubelet.service")
    assert code == 4
    assert "systemReserved.cpu: '${SYSTEM_RESERVED_CPU}' is not a quantity" in err


def test_variables_count_once_where_a_unit_expands_them(planned, tmp_path):
    (tmp_path / "unit").write_text("[Service]\nEnvironmentFile=/etc/x\nExecStart=/usr/bin/kubelet $ARGS --max-pods=9\n")
    (tmp_path / "env").write_text("# of the node\nARGS=--enforce-node-allocatable=pods --kube-reserved=memory=1Gi\n")
    given = ("--kubelet-flags", tmp_path / "env", "--kubelet-flags", tmp_path / "unit")
    found, err = planned("--kubelet-config", "ocp-kubeletconfig.yaml", *given)
    assert found["/kubepods.slice"]["memory.max"] == "4294967296"
    assert "EnvironmentFile" not in err


def test_an_environment_file_with_the_flags_themselves(planned):
    found, _ = planned("--kubelet-config", "kubespray.yaml", "--kubelet-flags", "kubelet.env")
    assert memory_of(found["/system.slice"]) == ("1073741824", "1073741824")


@pytest.mark.parametrize(("name", "says"), [
    ("bottlerocket.toml", "this is not YAML"),
    ("talos.yaml", "expected 'kubelet.config.k8s.io/v1beta1', got 'nothing'"),
    ("kops.yaml", "expected 'kubelet.config.k8s.io/v1beta1', got 'kops.k8s.io/v1alpha2'"),
])  # fmt: skip
def test_other_tools_are_refused_with_what_to_give(told, name, says):
    code, _, err = told("--kubelet-config", name)
    assert code == 4
    assert says in err
    assert "kubectl get --raw /api/v1/nodes/NAME/proxy/configz" in err


def test_a_mistake_in_a_configuration_names_no_other_forms(told, tmp_path):
    (tmp_path / "k.yaml").write_text("kind: KubeletConfiguration\nmaxPods: [\n")
    code, _, err = told("--kubelet-config", tmp_path / "k.yaml")
    assert (code, "configz" in err) == (4, False)


def test_a_command_line_without_flags_is_refused(told, tmp_path):
    (tmp_path / "unit").write_text("[Service]\nExecStart=/usr/bin/kubelet\n")
    code, _, err = told("--kubelet-config", tmp_path / "unit")
    assert code == 4
    assert "it contains no kubelet flags" in err


def test_an_environment_file_without_flags(planned, tmp_path):
    (tmp_path / "kubelet").write_text("KUBELET_EXTRA_ARGS=\n")
    found, err = planned("--kubelet-config", "kubespray.yaml", "--kubelet-flags", tmp_path / "kubelet")
    assert found["/kubepods.slice"]["memory.max"] == "8589934592"
    assert "KUBELET_EXTRA_ARGS" not in err


def test_files_of_the_environment_that_a_unit_names_are_noted_as_long_as_a_variable_is_missing(planned, tmp_path):
    unit = (
        '[Service]\nEnvironment="CONFIG_ARGS=--max-pods=9"\nEnvironmentFile=-/etc/default/kubelet\n'
        "ExecStart=/usr/bin/kubelet $CONFIG_ARGS $EXTRA_ARGS\n"
    )
    (tmp_path / "10-kubeadm.conf").write_text(unit)
    (tmp_path / "kubelet").write_text("EXTRA_ARGS=--kube-reserved=memory=1Gi\n")
    given = ("--kubelet-config", "ocp-kubeletconfig.yaml", "--kubelet-flags", tmp_path / "10-kubeadm.conf")
    _, err = planned(*given)
    assert "EnvironmentFile=-/etc/default/kubelet: the file is not read here" in err
    assert "$EXTRA_ARGS: the variable is not set here" in err
    found, err = planned(*given, "--kubelet-flags", tmp_path / "kubelet")
    # 8Gi without the file's 3Gi and the flag's 1Gi.
    assert found["/kubepods.slice"]["memory.max"] == "4294967296"
    assert "EnvironmentFile" not in err
    assert "EXTRA_ARGS" not in err


@pytest.mark.parametrize("option", ["--kubelet-config", "--kubelet-flags"])
def test_the_unit_of_k3s(planned, option):
    found, err = planned(option, "k3s.service")
    # 8Gi without 1Gi, and memory QoS of the pod's 128Mi.
    assert memory_of(found["/kubepods"]) == ("134217728", "7516192768")
    assert found["/kubepods"]["cpu.weight"] == "137"
    assert "k3s.service: kubelet-arg: k3s and RKE2 give their kubelet further settings of their own" in err
    assert "--disable" not in err


@pytest.mark.parametrize("words", ["k3s agent --disable traefik", "/usr/local/bin/rke2 server --debug"])
def test_a_command_of_k3s_without_kubelet_arguments(planned, words):
    found, err = planned("--kubelet-flags", f"ExecStart={words}")
    assert found["/kubepods"]["memory.max"] == "8589934592"
    assert "unknown flag" not in err
    assert "/configz of the node has all of them" in err


def test_a_switch_among_the_arguments_of_k3s(planned):
    words = "--kubelet-arg --kube-reserved=memory=1Gi --kubelet-arg cgroups-per-qos --kubelet-arg= --debug"
    found, _ = planned("--kubelet-flags", words)
    assert found["/kubepods"]["memory.max"] == "7516192768"
