"""An audit of values: each file of a recording against what the kubelet would have written."""

import json

import pytest

from tests.unit.cli.audit.recordings import TIERED, TREES, path_of


@pytest.mark.parametrize("tree", sorted(TREES.glob("*.json")), ids=lambda path: path.stem)
def test_a_real_kubelet_conforms(told, tree):
    code, out, err = told("--tree", tree)
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)
    note = "restartPolicy of container s of pod default/burst-sidecar-n1: Kubernetes 1.27 does not know this field"
    assert (err == "") is ("v1.27" not in tree.name) is (note not in err)


@pytest.mark.parametrize("case", [
    ("/kubepods.slice", "memory.min", "4096", "memory.min of kubepods.slice is 4096, expected "),
    ("/kubepods.slice", "memory.max", "max", "memory.max of kubepods.slice is max, expected 1904234496"),
    ("/kubepods.slice/kubepods-burstable.slice", "memory.low", "0", "memory.low of kubepods-burstable.slice is 0"),
    ("/kubepods.slice/kubepods-besteffort.slice", "cpu.weight", "9", "cpu.weight of kubepods-besteffort.slice is 9"),
    (("burst-req-lim-n1", "a"), "memory.high", "max", "memory.high of container a of pod default/burst-req-lim-n1"),
    (("burst-req-lim-n1", "a"), "memory.low", "0", "memory.low of container a of pod default/burst-req-lim-n1 is 0"),
    (("burst-req-lim-n1", "a"), "memory.swap.max", "max", "memory.swap.max of container a of pod"),
    (("burst-req-lim-n1", "a"), "memory.oom.group", "0", "memory.oom.group of container a of pod"),
    (("burst-req-lim-n1", "a"), "cpu.max", "1000 100000", "cpu.max of container a of pod"),
    (("burst-req-lim-n1", "a"), "oom_score_adj", "1000", "oom_score_adj of container a of pod"),
    (("guar-one-n1", "a"), "memory.min", "0", "memory.min of container a of pod default/guar-one-n1 is 0"),
    (("guar-one-n1", "a"), "memory.max", "67112960", "memory.max of container a of pod default/guar-one-n1 is 6711"),
])  # fmt: skip
def test_a_single_corrupted_knob_is_named(told, changed, case):
    where, file, text, says = case

    def corrupt(data):
        path = where if isinstance(where, str) else path_of(data, *where)
        assert data["cgroups"][path][file] != text
        data["cgroups"][path][file] = text

    code, out, _ = told("--tree", changed(corrupt))
    assert code == 1
    assert says in out
    assert ", 1 deviate, " in out.splitlines()[-1]
    assert "  source   " in out


def test_every_finding_as_json(told, changed):
    def corrupt(data):
        data["cgroups"]["/kubepods.slice"]["hugetlb"]["hugetlb.2MB.max"] = "2097152"

    code, out, _ = told("--tree", changed(corrupt), "--json")
    document = json.loads(out)
    assert code == 1
    assert document["counts"] == {"conforms": 348, "deviates": 1, "known": 0, "not observable": 10}
    assert len(document["findings"]) == 359
    [wrong] = [one for one in document["findings"] if one["verdict"] == "deviates"]
    assert (wrong["cgroup"], wrong["knob"], wrong["observed"]) == ("/kubepods.slice", "hugetlb.2MB.max", "2097152")
    assert wrong["reason"]["rule"]
    # A recorded node has a kubelet, so memqos wrote nothing in its place.
    assert wrong["set_by"] == "the kubelet"
    setters = {one["set_by"] for one in document["findings"]}
    assert setters == {"the kubelet", "the runtime under test", "systemd", "the kernel"}


def test_options_override_the_recording(told, changed, tmp_path):
    """Pods and configuration from files of their own; with another configuration the same tree deviates."""
    data = json.loads(TIERED.read_text())
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": data["pods"]}))
    (tmp_path / "kubelet.json").write_text(json.dumps(data["config"]))
    data["config"]["memoryReservationPolicy"] = "None"
    (tmp_path / "other.json").write_text(json.dumps(data["config"]))
    bare = changed(lambda data: [data.pop(name) for name in ("pods", "config", "kubelet")])
    common = ("--tree", bare, "--kubernetes", "1.36", "--pods", tmp_path / "pods.json")
    code, out, _ = told(*common, "--kubelet-config", tmp_path / "kubelet.json")
    assert (code, "349 conform, 0 deviate" in out) == (0, True)
    code, out, _ = told(*common, "--kubelet-config", tmp_path / "other.json")
    assert code == 1
    assert "memory.low of kubepods-burstable.slice" in out


def test_a_malformed_oom_score_is_not_observable(told, changed):
    def spoil(data):
        data["cgroups"][path_of(data, "burst-req-lim-n1", "a")]["oom_score_adj"] = "?"

    code, out, _ = told("--tree", changed(spoil))
    assert (code, "oom_score_adj of container a of pod default/burst-req-lim-n1: the file does not parse" in out) == (
        0, True
    )  # fmt: skip


def test_nothing_observed(told, changed):
    def empty(data):
        data["cgroups"] = {"/elsewhere": {"memory.min": "0"}}

    code, out, _ = told("--tree", changed(empty))
    assert code == 5
    assert ": 0 conform, 0 deviate, " in out


def test_a_missing_file_is_not_observable(told, changed):
    def remove(data):
        data["cgroups"]["/kubepods.slice"]["memory.swap.max"] = None
        data["cgroups"]["/kubepods.slice"]["cpu.max"] = "much"

    code, out, _ = told("--tree", changed(remove))
    assert code == 0
    assert "memory.swap.max of kubepods.slice: no such file" in out
    assert "cpu.max of kubepods.slice: the file does not parse" in out


def test_options_for_the_nodes_facts(told, changed, tmp_path):
    """Required without any node in the recording; with another one the same tree deviates."""
    bare = changed(lambda data: data.pop("node"))
    (tmp_path / "node.yaml").write_text("memory: 2023444Ki\nswap: 524284Ki\ncpus: 2\n")
    assert told("--tree", bare, "--node", tmp_path / "node.yaml")[0] == 0
    code, out, _ = told("--tree", TIERED, "--capacity-memory", "4Gi")
    assert code == 1
    assert "memory.max of kubepods.slice is 1904234496" in out


def test_fields_on_top_of_the_recorded_configuration(told, changed, tmp_path):
    code, out, _ = told("--tree", TIERED, "--set", "memoryThrottlingFactor=0.8")
    assert code == 1
    assert {line.split(" of ")[0] for line in out.splitlines() if ", expected " in line} == {"memory.high"}
    assert "[--set memoryThrottlingFactor]" in out
    # On top of a file that replaces the recorded one, and without one.
    (tmp_path / "kubelet.json").write_text(json.dumps(json.loads(TIERED.read_text())["config"]))
    given = ("--tree", TIERED, "--kubelet-config", tmp_path / "kubelet.json")
    assert told(*given, "--set", "memoryThrottlingFactor=0.9")[0] == 0
    assert told(*given, "--set", "memoryThrottlingFactor=0.8")[0] == 1
    bare = changed(lambda data: data.pop("config"))
    code, out, _ = told("--tree", bare, "--set", "cgroupDriver=systemd")
    assert (code, "memory.max of kubepods.slice" in out) == (1, True)
    code, _, err = told("--tree", TIERED, "--set", "memoryThrotlingFactor=1")
    assert (code, "Did you mean 'memoryThrottlingFactor'" in err) == (4, True)


def test_without_a_configuration_no_defaults_are_assumed(told, changed):
    def bare(data):
        del data["config"]
        data["unread"] = ["--fail-swap-on=false"]

    code, out, _ = told("--tree", changed(lambda data: data.pop("config")))
    assert (code, "0 deviate" in out) == (0, True)
    assert "the kubelet's configuration is not known: the recording does not contain it" in out
    # A kubelet without a configuration file has defaults, and flags.
    code, out, _ = told("--tree", changed(bare))
    assert (code, "memory.max of kubepods.slice" in out) == (1, True)


def test_a_text_that_no_terminal_can_show(told, changed):
    def half(data):
        data["cgroups"]["/kubepods.slice"]["memory.min"] = "\ud800"

    code, out, _ = told("--tree", changed(half))
    assert (code, r"'\ud800' is neither a number nor 'max'" in out) == (0, True)


def test_a_cgroup_without_any_file_is_a_hole_and_no_error(told, changed):
    """Trees copied by hand have holes: missing files are not observable, and the rest is judged."""

    def cut(data):
        data["cgroups"][path_of(data, "burst-req-lim-n1", "a")] = {}

    code, out, _ = told("--tree", changed(cut))
    assert (code, " 0 deviate, " in out.splitlines()[-1]) == (0, True)
    [hole] = [line for line in out.splitlines() if "of container a of pod default/burst-req-lim-n1: " in line]
    assert hole.startswith("not observable: ")
    assert "memory.high" in hole


def test_a_build_before_a_release_is_judged_with_a_note(told, changed):
    code, out, err = told("--tree", changed(lambda data: data.update(kubelet="v1.36.0-rc.1")))
    assert code == 0
    assert "Kubernetes 1.36" in out.splitlines()[-1]
    assert "note: kubelet: it is a build before 1.36.0 and judged as that release" in err
