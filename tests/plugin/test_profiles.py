"""Several profiles: every case that needs a machine runs on each, and the results say how they compare."""

import json

import pytest

pytest_plugins = ["pytester"]

CASES = """
@pytest.fixture(scope="session")
def qos_node(request):
    if request.param[0] == "forky":
        raise MachineryError("it does not boot.")
    return request.param

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("case", ["a", "b"])
def test_each(qos_node, qos_evidence, case):
    qos_evidence.settle(finding("conforms", expected=qos_node[0]))

@pytest.mark.claim("demo/two")
@pytest.mark.machine(topology="one-numa-node")
def test_own_topology(qos_node, qos_evidence):
    qos_evidence.settle(finding("conforms", observed=qos_node[1]))

@pytest.mark.claim("demo/two")
@pytest.mark.machine(profile="trixie")
def test_own_profile(qos_node, qos_evidence):
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/two")
def test_without_a_machine(qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_every_case_runs_on_each_profile_and_the_matrix_compares_them(suite, run, pytester, arguments):
    suite(CASES)

    result = run("--memqos-profile=bookworm,trixie,forky", *arguments)

    assert result.ret == 3
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    assert sorted(entry["id"].partition("::")[2] for entry in written["results"]) == [
        "test_each[bookworm-a]",
        "test_each[bookworm-b]",
        "test_each[forky-a]",
        "test_each[forky-b]",
        "test_each[trixie-a]",
        "test_each[trixie-b]",
        "test_own_profile[trixie-two-numa-nodes]",
        "test_own_topology[bookworm-one-numa-node]",
        "test_own_topology[forky-one-numa-node]",
        "test_own_topology[trixie-one-numa-node]",
        "test_without_a_machine",
    ]
    rows = {row["claim"]: row["cells"] for row in written["matrix"]["rows"]}
    assert rows["demo/one"] == {
        "bookworm": {"conforms": 2},
        "trixie": {"conforms": 2},
        "forky": {"machinery": 2},
    }
    text = (pytester.path / "out/matrix.txt").read_text()
    assert "demo/one  conforms 2  " in text
    assert "  memory.high expected (demo/one): container app of pod default/web, and 1 more" in text
    result.stdout.fnmatch_lines(["*machine bookworm,trixie,forky/two-numa-nodes, *", "demo/one *machinery 2*"])


def test_one_profile_leaves_names_as_they_are_and_no_matrix(suite, run, pytester):
    suite(CASES.replace("request.param[0]", '"trixie"').replace("return request.param", 'return "trixie", ""'))

    assert run("--memqos-profile=trixie", "-k", "test_each").ret == 0
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    assert [entry["id"].partition("::")[2] for entry in written["results"]] == ["test_each[a]", "test_each[b]"]
    assert {entry["profile"] for entry in written["results"]} == {"trixie"}
    assert "matrix" not in written
    assert not (pytester.path / "out/matrix.txt").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--memqos-profile=trixie,sarge"],
            (
                "there is no profile 'sarge'. Known: bookworm, forky, forky-ppc64le-64k, sid, trixie, trixie-arm64, "
                "trixie-arm64-16k, trixie-bpo, trixie-ppc64le-64k."
            ),
        ),
        (["--memqos-profile=,"], "--memqos-profile: the value is empty."),
        (["--memqos-cgroup=v1"], "the profile 'trixie' cannot boot with cgroup v1"),
        (["--memqos-cgroup=v3"], "v1, v2"),
        (["--memqos-runtime=runc,oci:podman"], "there is no runtime 'oci:podman'. Known: runc, crun, containerd+runc"),
        (
            ["--memqos-runtime=runc,oci:crun", "--memqos-runtime-binary=/bin/true"],
            "'/bin/true' could be runc or crun, which --memqos-runtime names. Name it: runc=/bin/true.",
        ),
        (
            ["--memqos-runtime=runc,oci:crun", "--memqos-runtime-version=1.3.6"],
            "--memqos-runtime-version: it is about one OCI runtime, and --memqos-runtime names runc and crun.",
        ),
        (["--memqos-initrd=/etc/hostname"], "--initrd: an initrd needs its kernel."),
        (["--memqos-kernel-deb=/etc/hostname"], "--kernel-deb: '/etc/hostname' is not a Debian package."),
        (["--memqos-runtime-deb=a.deb", "--memqos-runtime-deb=b.deb"], "--runtime-deb: 'a.deb' cannot be read"),
    ],
)
def test_what_no_machine_can_have_is_refused_before_anything_starts(suite, run, options, words):
    suite(CASES)

    result = run(*options)

    assert result.ret == 4
    assert words in result.stderr.str()


@pytest.mark.parametrize("arguments", [(), ("-n", "3")], ids=["alone", "xdist"])
def test_every_case_runs_with_each_runtime_under_each_driver(suite, run, pytester, arguments):
    suite(CASES.replace("return request.param", "return str(request.param[3]), str(request.param[2])"))

    result = run(
        "--memqos-runtime=runc,oci:crun", "--memqos-driver=systemd,cgroupfs", "-k", "each or topology", *arguments
    )

    assert result.ret == 0
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    seen = {entry["id"].partition("::")[2]: entry for entry in written["results"]}
    assert sorted(seen) == [
        "test_each[containerd+runc-cgroupfs-a]",
        "test_each[containerd+runc-cgroupfs-b]",
        "test_each[containerd+runc-systemd-a]",
        "test_each[containerd+runc-systemd-b]",
        "test_each[oci:crun-cgroupfs-a]",
        "test_each[oci:crun-cgroupfs-b]",
        "test_each[oci:crun-systemd-a]",
        "test_each[oci:crun-systemd-b]",
        "test_own_topology[trixie-one-numa-node-containerd+runc-cgroupfs]",
        "test_own_topology[trixie-one-numa-node-containerd+runc-systemd]",
        "test_own_topology[trixie-one-numa-node-oci:crun-cgroupfs]",
        "test_own_topology[trixie-one-numa-node-oci:crun-systemd]",
    ]
    one = seen["test_each[oci:crun-cgroupfs-a]"]
    assert (one["profile"], one["runtime"], one["driver"]) == ("trixie", "oci:crun", "cgroupfs")
    assert one["findings"][0]["expected"] == "cgroupfs"
    assert [column["name"] for column in written["matrix"]["columns"]] == [
        "containerd+runc/systemd",
        "containerd+runc/cgroupfs",
        "oci:crun/systemd",
        "oci:crun/cgroupfs",
    ] or arguments
    assert written["settings"]["runtime"]["value"] == ["containerd+runc", "oci:crun"]
    result.stdout.fnmatch_lines(["*two-numa-nodes, containerd+runc,oci:crun, systemd,cgroupfs driver"])


def test_cases_of_one_system_come_one_after_another_and_those_of_one_machine(suite, run, pytester):
    for name in ("first", "second"):
        suite(
            """
        @pytest.fixture(scope="module")
        def qos_node(request):
            return request.param

        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("case", ["a", "b"])
        def test_it(qos_node, qos_evidence, case):
            qos_evidence.settle(finding("conforms"))
        """,
            name=name,
        )
    run("--memqos-profile=trixie,forky", "--memqos-runtime=runc,crun")
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    systems = [(entry["profile"], entry["runtime"]) for entry in written["results"]]
    assert list(dict.fromkeys(systems)) == [
        ("trixie", "containerd+runc"),
        ("trixie", "containerd+crun"),
        ("forky", "containerd+runc"),
        ("forky", "containerd+crun"),
    ]
    assert systems == sorted(systems, key=list(dict.fromkeys(systems)).index)


def test_what_tests_of_one_kubelet_look_at_happens_once(suite, run, pytester):
    """Though the kubelet has another index in the list of each of them."""
    suite(
        """
        HAPPENED = []

        @pytest.fixture(scope="module")
        def scene(qos_kubelet):
            HAPPENED.append(qos_kubelet.id)
            return qos_kubelet.id

        @pytest.mark.kubelet("v1.27", "v1.36-none")
        @pytest.mark.claim("demo/one")
        def test_first(scene, qos_evidence):
            qos_evidence.settle(finding("conforms"))

        @pytest.mark.kubelet("v1.36-none", "v1.37-default")
        @pytest.mark.claim("demo/one")
        def test_second(scene, qos_evidence):
            qos_evidence.settle(finding("conforms"))

        @pytest.mark.kubelet("v1.22", "v1.27", "v1.37-default")
        @pytest.mark.claim("demo/one")
        def test_third(scene, qos_evidence):
            assert len(HAPPENED) == len(set(HAPPENED)), HAPPENED
            qos_evidence.settle(finding("conforms"))
        """
    )
    run()
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    kubelets = [result["id"].partition("[")[2] for result in written["results"]]
    assert [result["outcome"] for result in written["results"]] == ["conforms"] * 7
    assert kubelets == sorted(kubelets, key=list(dict.fromkeys(kubelets)).index)


BREAKING = """
import contextlib
from types import SimpleNamespace
from memqos.errors import MachineError
from memqos.place.fake import FakePlace
from memqos.plugin.machines import lane

@contextlib.contextmanager
def station(config, key):
    profile = key[0]
    node = SimpleNamespace(leftovers=lambda: (), why_not=lambda need: "")
    log = SimpleNamespace(to=lambda sink: contextlib.nullcontext())
    yield SimpleNamespace(id=f"{profile}-0", key=key, place=FakePlace(), node=node, log=log)

lane.open_station = station

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("case", ["a", "b"])
def test_each(qos_node, qos_lane, qos_evidence, case):
    station = qos_lane.station
    if station.key[0] == "trixie":
        station.place.break_down(MachineError("trixie: QEMU ended."))
        station.place.check_alive()
    qos_evidence.settle(finding("conforms"))
"""


def test_a_machine_that_breaks_takes_no_other_profile_with_it(suite, run, pytester):
    suite(BREAKING)

    result = run("--memqos-profile=bookworm,trixie,forky")

    assert result.ret == 3
    written = json.loads((pytester.path / "out/bundle.json").read_text())
    seen = {entry["id"].partition("::")[2]: (entry["outcome"], entry["machine"]) for entry in written["results"]}
    assert seen == {
        "test_each[bookworm-a]": ("conforms", "bookworm-0"),
        "test_each[bookworm-b]": ("conforms", "bookworm-0"),
        "test_each[trixie-a]": ("machinery", "trixie-0"),
        "test_each[trixie-b]": ("machinery", "trixie-0"),
        "test_each[forky-a]": ("conforms", "forky-0"),
        "test_each[forky-b]": ("conforms", "forky-0"),
    }
    result.stdout.fnmatch_lines(["*trixie: QEMU ended.*"])
    result.stdout.no_fnmatch_line("*forky*QEMU ended*")
