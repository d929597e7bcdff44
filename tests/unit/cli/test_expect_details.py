"""What `memqos expect` prints besides the tree: translations, runtimes by version, effective protection."""

import io
import json
import sys

import pytest

from memqos.catalog.runtimes import runtimes_named
from memqos.cli.main import run
from memqos.engine.translate.runtimes import TRIXIE

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
  - name: app
    resources:
      requests: {memory: 100000000}
      limits: {memory: 256Mi, cpu: 333m}
"""
COMMON = ("--kubernetes", "1.35", "--set", "featureGates.MemoryQoS=true", "--driver", "systemd")


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Run `memqos expect` on the pod with these arguments: the exit code, and both outputs."""
    (tmp_path / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)

    def tell(*arguments):
        code = run(["expect", "pod.yaml", *COMMON, *arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


def test_one_language_takes_the_trees_place(told):
    code, out, err = told("--translate", "docker")
    assert (code, err) == (0, "")
    assert out.splitlines()[:4] == [
        "container app of pod shop/web",
        "  the equivalent Docker HostConfig",
        "    Memory 268435456",
        "    MemorySwap 268435456",
    ]
    assert "    cannot set memory.high 251588608: HostConfig has no field for memory.high.\n" in out
    assert "CRI" not in out


def test_all_languages_with_named_runtimes(told):
    _, out, _ = told("--translate", "all", "--runtime", "cri-o@1.36+crun@1.21", "--hugetlb")
    titles = [line for line in out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert titles == [
        "  CRI LinuxContainerResources, as the kubelet sends them",
        "  OCI linux.resources, as cri-o 1.36 makes them",
        "  the equivalent Docker HostConfig",
        "  interface files, as crun 1.21 writes them",
    ]
    assert "    hugetlb.2MB.max   0\n" in out


def test_page_size_and_systemd_decide(told):
    _, out, _ = told("--translate", "files", "--page-size", "65536")
    assert "    memory.min        100000000, reads 99942400\n" in out
    assert "    memory.oom.group  1, after a daemon-reload 0\n" in out
    _, out, _ = told("--translate", "files", "--systemd", "242")
    assert "    memory.oom.group  1\n" in out


def test_the_reasons_of_a_file_end_with_its_way(told):
    _, out, _ = told("--why", "memory.high", "--translate", "all")
    assert out.splitlines()[-4:] == [
        "  CRI      unified memory.high = 251588608",
        "  OCI      unified memory.high = 251588608",
        "  Docker   cannot: HostConfig has no field for memory.high.",
        "  file     runc 1.1.15 writes 251588608; property MemoryHigh=251588608",
    ]
    assert "  CRI " not in told("--why", "memory.high")[1]


def test_translations_as_json(told):
    document = json.loads(told("--translate", "cri", "--json")[1])
    [container] = document["pods"][0]["containers"]
    found = container["translation"]
    assert found["runtimes"] == ["containerd 1.7.24", "runc 1.1.15"]
    assert found["oci"]["resources"]["memory"] == {"limit": 268435456, "swap": 268435456}
    assert found["docker"]["annotations"]["org.systemd.property.MemoryMin"] == "uint64 100000000"
    [least] = [one for one in found["files"]["own"] if one["name"] == "memory.min"]
    assert least == {"name": "memory.min", "written": "100000000", "shows": "99999744", "after_reload": "99999744"}
    assert found["files"]["properties"]["MemoryMax"] == "268435456"


def test_a_named_runtime_makes_the_plan(told):
    """Without --translate too: quadratic weights and the rounded quota of runc 1.3.2."""
    _, out, _ = told("--runtime", "runc@1.3.2")
    assert "    cpu.weight        43\n" in out
    assert "    cpu.max           34000 100000\n" in out
    _, out, _ = told("--runtime", "runc@1.3.1")
    assert "    cpu.weight        13\n" in out
    assert "    cpu.max           33300 100000\n" in out


def test_what_the_releases_of_a_version_differ_in_is_shown_as_such(told):
    _, out, _ = told("--runtime", "runc@1.3")
    assert "    cpu.weight        43 or 13\n" in out
    assert "    cpu.max           34000 100000 or 33300 100000\n" in out


@pytest.mark.parametrize(("text", "cri", "oci"), [
    ("runc@1.3.6", "containerd 1.7.24", "runc 1.3.6"),
    ("cri-o@v1.36", "cri-o v1.36", "runc 1.1.15"),
    ("crun@1.21+containerd@2.1.9", "containerd 2.1.9", "crun 1.21"),
    ("oci:crun@1.21", "memqos's own bundles", "crun 1.21"),
    ("containerd@1.7.24~ds1-6+b3+runc@1.1.15+ds1-2+b4", "containerd 1.7.24~ds1-6+b3", "runc 1.1.15+ds1-2+b4"),
])  # fmt: skip
def test_runtimes_by_name_and_version(text, cri, oci):
    found = runtimes_named(text, TRIXIE)
    assert (str(found.cri), str(found.oci)) == (cri, oci)


@pytest.mark.parametrize(("arguments", "says"), [
    (("--runtime", ""), "there is no runtime ''"),
    (("--runtime", "runc"), "'runc' has no version"),
    (("--runtime", "runc@latest"), "'runc@latest' has no version"),
    (("--runtime", "runc@1+crun@1"), "two runtimes of one kind"),
    (("--runtime", "oci:containerd@1.7"), "two runtimes of one kind"),
    (("--runtime", "runc@1.1", "--weight", "linear"), "--runtime already determines it"),
    (("--translate", "oci", "--weight", "linear"), "name them with --runtime"),
    (("--translate", "oci", "--runtime", "runc@1.3"), "not every release that 'runc 1.3' can mean"),
    (("--translate", "klingon"), "'klingon' is not one of"),
    (("--systemd", "239"), "is not in the range"),
    (("--usage", "shop/web/app=1"), "--usage needs --protection"),
    (("--protection", "--usage", "web/app=1"), "there is no container 'web/app'"),
    (("--protection", "--usage", "shop/web/app"), "--usage: '' is not a quantity"),
    (("--protection", "--usage", "shop/web/app=-1"), "is less than 0"),
    (("--protection", "--cgroup", "v1", "--set", "failCgroupV1=false"), "--protection: cgroup v1 has no memory.min"),
    (("--throttling", "--cgroup", "v1", "--set", "failCgroupV1=false"), "--throttling: cgroup v1 has no memory.high"),
    (("--oom", "--cgroup", "v1", "--set", "failCgroupV1=false"), "--oom: the order of kills is modelled"),
    (("--oom", "--usage", "web/app=1"), "there is no container 'web/app'"),
    (("--translate", "cri", "--diff-config", "x.yaml"), "need one plan"),
    (("--throttling", "--resize", "x.yaml"), "--resize cannot be combined with"),
    (("--hz", "1000"), "--hz needs --throttling"),
    (("--throttling", "--hz", "0"), "is not in the range"),
])  # fmt: skip
def test_wrong_words(told, arguments, says):
    code, out, err = told(*arguments)
    assert (code, out) == (4, "")
    assert says in " ".join(err.split())


def test_protection(told):
    code, out, err = told("--protection")
    assert (code, err) == (0, "")
    assert out.startswith("Effective protection: ")
    assert "container app of pod shop/web\n  uses 268435456 (assumed: all of its memory.max)\n" in out
    _, out, _ = told("--protection", "--usage", "shop/web/app=64Mi", "--runtime", "crun@1.8.1")
    assert "  uses 67108864 (given)\n" in out
    assert "  memory.min 0: 67108864 effective, 0 without memory_recursiveprot, 0 at the pod's limit\n" in out


def test_protection_beside_translations(told):
    _, out, _ = told("--protection", "--translate", "cri")
    assert out.index("CRI LinuxContainerResources") < out.index("Effective protection")
    document = json.loads(told("--protection", "--json", "--usage", "shop/web/app=64Mi")[1])
    own = document["protection"][-1]
    assert (own["subject"], own["usage"], own["use"]) == ("container app of pod shop/web", 64 << 20, "given")
    assert own["recursive"] == {"min": "67108864", "low": "0", "protection": "hard"}
    assert "protection" not in json.loads(told("--json")[1])


def test_throttling(told):
    code, out, err = told("--throttling", "--protection")
    assert (code, err) == (0, "")
    assert out.index("Effective protection") < out.index("Throttling: what memory.high does")
    [own] = json.loads(told("--throttling", "--json")[1])["throttling"]
    assert (own["subject"], own["stalls"]) == ("container app of pod shop/web", False)
    assert f"  memory.high {own['high']}: it sleeps from {own['sleepsFrom']} on\n" in out
    assert "throttling" not in json.loads(told("--json")[1])


def test_throttling_with_the_jiffies_of_another_kernel(told):
    [debian] = json.loads(told("--throttling", "--json")[1])["throttling"]
    [fedora] = json.loads(told("--throttling", "--hz", "1000", "--json")[1])["throttling"]
    assert (debian["hz"], fedora["hz"]) == (250, 1000)
    assert debian["sleepsFrom"] > fedora["sleepsFrom"]
    assert debian["mostMilliseconds"] == 64 * debian["leastMilliseconds"]


def test_oom(told):
    code, out, err = told("--oom", "--usage", "shop/web/app=64Mi")
    assert (code, err) == (0, "")
    assert "  1. container app of pod shop/web" in out
    assert "     uses 67108864 (given), oom_score_adj " in out
    [machine] = json.loads(told("--oom", "--json")[1])["oom"]
    assert (machine["subject"], [one["use"] for one in machine["victims"]]) == (
        "the machine",
        ["assumed: all of its memory.max"],
    )
    assert "oom" not in json.loads(told("--json")[1])


def test_facts_from_standard_input_are_read_once(told, monkeypatch):
    class Input:
        buffer = io.BytesIO(b"memory: 4Gi\n")

    monkeypatch.setattr(sys, "stdin", Input)
    assert told("--protection", "--node", "-")[0] == 0
