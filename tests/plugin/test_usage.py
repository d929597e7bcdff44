"""Options and markers: accepted ones, one sentence for others; and no effect on other tests."""

import json
import os

import pytest

pytest_plugins = ["pytester"]

ONE = """
@pytest.mark.claim("demo/one")
def test_it(qos_evidence):
    qos_evidence.settle(finding("conforms"))
"""


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--memqos-runtime=podman", "there is no runtime 'podman'. Known: runc, crun,"),
        ("--memqos-driver=none", "there is no driver 'none'. Known: systemd, cgroupfs."),
        ("--memqos-profile=slackware", "there is no profile 'slackware'."),
        ("--memqos-topology=ring", "there is no topology 'ring'."),
        ("--memqos-kubernetes=1.21", "there is no Kubernetes release '1.21'."),
        ("--memqos-parallel=0", "'0' is not a whole number, 1 or more."),
        ("--memqos-parallel=two", "'two' is not a whole number, 1 or more."),
        ("--memqos-runtime-binary=nowhere", "'nowhere'"),
        ("--memqos-profile=", "the value is empty."),
    ],
)
def test_a_wrong_option_is_one_sentence_and_exit_4(suite, run, option, words):
    suite(ONE)

    result = run(option)

    assert result.ret == 4
    assert words in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_a_number_of_workers_below_none(suite, run):
    suite("def test_it(qos_evidence):\n    pass\n")
    result = run("-n", "-1")
    assert result.ret == 4
    result.stderr.fnmatch_lines("ERROR: -n: -1 is not a number of workers.")


def test_a_runtime_binary_that_cannot_be_run_is_refused(suite, run, pytester):
    suite(ONE)
    (pytester.path / "my-runc").write_text("not executable")

    result = run("--memqos-runtime-binary=my-runc")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *my-runc*not executable*"])


def test_the_environment_sets_missing_options_and_the_header_shows_it(suite, run, monkeypatch, pytester):
    suite(ONE)
    monkeypatch.setenv("MEMQOS_RUNTIME", "crun")
    monkeypatch.setenv("MEMQOS_DRIVER", "cgroupfs")

    result = run("--memqos-driver=systemd")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "memqos *: machine trixie/two-numa-nodes, containerd+crun, systemd driver",
            "memqos settings: runtime=containerd+crun (MEMQOS_RUNTIME), driver=systemd (--memqos-driver), *",
        ]
    )
    settings = json.loads((pytester.path / "out/bundle.json").read_text())["settings"]
    assert settings["runtime"] == {"value": ["containerd+crun"], "origin": "MEMQOS_RUNTIME"}
    assert settings["topology"] == {"value": "two-numa-nodes", "origin": "default"}


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ('claim("demo/three")', "there is no claim 'demo/three'. Known: demo/one, demo/two."),
        ("claim()", "the marker 'claim' has the form claim(\"chapter/name\")."),
        ('claim("demo/one", "demo/two")', "the marker 'claim' has the form"),
        ('needs("luck")', "there is no needs 'luck'. Known: swap, small swap, roomy shares, "),
        ("needs()", "the marker 'needs' has the form needs(feature, ...)."),
        ("behaviour(1)", "the marker 'behaviour' takes no arguments."),
        ('machine("trixie")', "the marker 'machine' has the form machine(profile=..., topology=...)."),
        ("kubelet()", "the marker 'kubelet' has the form kubelet(id, ..., instead=...)."),
        ('kubelet(instead="v1.22")', "the marker 'kubelet' has the form kubelet(id, ..., instead=...)."),
        ('kubelet("v1.22", only="v1.27")', "the marker 'kubelet' has the form kubelet(id, ..., instead=...)."),
        ('kubelet("v1.22", instead="v9")', "there is no kubelet 'v9'. Known: v1.22, "),
        ('kubelet("v1.22", instead=("v1.27", "v9"))', "there is no kubelet 'v9'. Known: v1.22, "),
        ('more(when="never")', "the marker 'more' has the form more(id, ...)."),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_wrong_marker_is_one_sentence_and_exit_4(suite, run, marker, words, arguments):
    suite(f"@pytest.mark.{marker}\ndef test_it(qos_evidence):\n    pass\n")

    result = run(*arguments)

    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert words in said
    assert "INTERNALERROR" not in said


ASKED = "def test_it(qos_request, qos_evidence):\n    qos_evidence.settle(finding('conforms', observed=qos_request))\n"


def test_the_claims_that_have_the_name_of_a_request_are_the_cases_of_a_test_of_requests(suite, run, pytester):
    suite(ASKED)
    file = pytester.path / "suites/demo/claims.toml"
    file.write_text(file.read_text().replace("[one]", "[limit]") + file.read_text().replace("[two]", "[no-swap]"))

    assert run("-k", "no-swap or test_it[limit]").ret == 0

    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [one["claim"] for one in results] == ["demo/limit", "demo/no-swap"]
    assert [one["id"].rpartition("::")[2] for one in results] == ["test_it[limit]", "test_it[no-swap]"]


CASES = (
    "def test_it(qos_case, qos_evidence):\n    qos_evidence.settle(finding('conforms', observed=qos_case.asks.verb))\n"
)


def test_a_claims_request_is_a_case(suite, run, pytester):
    suite(CASES)
    file = pytester.path / "suites/demo/claims.toml"
    file.write_text(file.read_text().replace("[one]\n", "[one]\nasks = { verb = 'left_alone', request = 'limit' }\n"))

    assert run().ret == 0

    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [(one["claim"], one["id"].rpartition("::")[2]) for one in results] == [("demo/one", "test_it[one]")]


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ("", "no claim of this chapter names a case: demo/one, demo/two."),
        ("asks = { verb = 'left_alone', request = 'limt' }\n", "there is no request 'limt'. Did you mean 'limit'?"),
        ("asks = { verb = 'left_alone', kubelets = ['v1.27', 'v1.22'] }\n", "'asks' has either a verb or kubelets."),
        ("asks = { kubelets = ['v1.27'] }\n", "kubelets take over from each other: name two."),
        ("asks = { verb = 'uses', of = 'swap' }\n", "asks: 'of' must be a list, each item a string, not 'swap'."),
        ("asks = { verb = ['uses'] }\n", "asks: 'verb' must be a string, not ['uses']."),
        ("asks = 'left_alone'\n", "'asks' must be a table, not 'left_alone'."),
        ("asks = { verbs = 'uses' }\n", "unknown field 'verbs'. Known: verb, request, of, kubelets."),
    ],
)
def test_what_a_claim_cannot_ask_for_is_refused(suite, run, pytester, asks, words):
    suite(CASES)
    file = pytester.path / "suites/demo/claims.toml"
    file.write_text(file.read_text().replace("[one]\n", f"[one]\n{asks}"))

    result = run()

    assert result.ret == 4
    assert words in result.stderr.str()


@pytest.mark.parametrize(
    ("claims", "words"),
    [(None, "no claim of this chapter names a request: demo/one, demo/two."), ("[one", "is not TOML")],
)
def test_a_test_of_requests_without_a_claim_of_one_is_refused(suite, run, pytester, claims, words):
    suite(ASKED)
    if claims:
        (pytester.path / "suites/demo/claims.toml").write_text(claims)

    result = run()

    assert result.ret == 4
    assert words in result.stderr.str()


def test_two_claims_on_one_test_are_refused(suite, run):
    suite('@pytest.mark.claim("demo/one")\n@pytest.mark.claim("demo/two")\ndef test_it(qos_evidence):\n    pass\n')

    result = run()

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*a test must cite exactly one claim; this one cites several.*"])


def test_an_unknown_kubelet_in_a_marker_names_the_known_ones(suite, run):
    suite('@pytest.mark.kubelet("v9")\n@pytest.mark.claim("demo/one")\ndef test_it(qos_kubelet):\n    pass\n')

    result = run()

    assert result.ret == 4
    assert "there is no kubelet 'v9'. Known: v1.22, " in result.stderr.str() + result.stdout.str()


def test_kubelets_are_those_of_the_cgroup_version_and_one_that_would_not_start_is_not_observable(suite, run):
    suite(
        """
        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.24", "v1.27", "v1.27-documented", "v1.36-none")
        def test_it(qos_kubelet, qos_evidence):
            qos_evidence.settle(finding("conforms"))
        """
    )

    legacy = run("-rn", "--memqos-profile=bookworm", "--memqos-cgroup=v1")
    unified = run("--collect-only", "-q")

    assert legacy.ret == 0
    legacy.stdout.fnmatch_lines(["*the kubelet of 1.36 does not start on cgroup v1 while failCgroupV1 is true*"])
    legacy.stdout.fnmatch_lines(["demo: 2 conform, 1 not observable, in *"])
    named = [line for line in unified.outlines if "::" in line]
    assert [name.partition("[")[2] for name in named] == ["v1.27-documented]", "v1.27]", "v1.36-none]"]


def test_a_kubelet_of_one_chapter_runs_elsewhere_only_where_it_is_named(suite, run):
    suite(
        """
        @pytest.mark.claim("demo/one")
        def test_every(qos_kubelet):
            pass

        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.36-static-draft")
        def test_named(qos_kubelet):
            pass
        """
    )

    named = [line for line in run("--collect-only", "-q").outlines if "::" in line]

    assert len(named) == 8
    assert [line for line in named if "static" in line] == ["demo/test_demo.py::test_named[v1.36-static-draft]"]


def test_kubelets_are_narrowed_by_release_and_empty_tests_deselected(suite, run):
    suite(
        """
        @pytest.mark.claim("demo/one")
        def test_every(qos_kubelet):
            pass

        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.22")
        def test_old(qos_kubelet):
            pass
        """
    )

    result = run("--collect-only", "-q", "--memqos-kubernetes=1.36")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "demo/test_demo.py::test_every?v1.36-none?",
            "demo/test_demo.py::test_every?v1.36-tiered?",
            "2/3 tests collected (1 deselected)*",
        ]
    )


def test_a_run_without_the_named_kubelets_takes_those_instead(suite, run):
    suite(
        """
        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.22", instead="v1.27-low-factor")
        def test_one(qos_kubelet):
            pass

        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.37-default", instead=("v1.28-limited-swap", "v1.30-limited-swap"))
        def test_several(qos_kubelet):
            pass
        """
    )

    def cases(*options):
        named = [line for line in run("--collect-only", "-q", *options).outlines if "::" in line]
        return [name.partition("::")[2] for name in named]

    assert cases("--memqos-all") == cases() == ["test_one[v1.22]", "test_several[v1.37-default]"]
    assert cases("--memqos-kubernetes=1.22") == ["test_one[v1.22]"]
    assert cases("--memqos-kubernetes=1.28") == ["test_one[v1.28-low-factor]", "test_several[v1.28-limited-swap]"]
    assert cases("--memqos-kubernetes=1.36") == ["test_one[v1.36-low-factor]", "test_several[v1.36-limited-swap]"]
    assert cases("--memqos-kubernetes=1.22,1.36") == ["test_one[v1.22]", "test_several[v1.36-limited-swap]"]


def test_a_release_between_two_of_the_catalogue_has_the_rules_that_hold_in_it(suite, run, pytester):
    suite(
        """
        @pytest.mark.claim("demo/one")
        @pytest.mark.kubelet("v1.27")
        def test_it(qos_kubelet, qos_evidence):
            assert qos_kubelet.release == "1.34"
            qos_evidence.settle(finding("deviates"))
        """
    )

    result = run("--memqos-kubernetes=1.34")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*rerun: memqos run --kubernetes 1.34 'demo/test_demo.py::test_it?v1.34?'"])


def test_markers_are_registered(pytester):
    result = pytester.runpytest_subprocess("--markers")

    result.stdout.fnmatch_lines(
        ["@pytest.mark.claim(id):*", "@pytest.mark.needs(feature, ...):*", "@pytest.mark.machine(*"]
    )


def test_other_tests_are_unaffected(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_is_loaded():
            heavy = {"grpc", "yaml", "qemu.qmp", "rich", "memqos.vm.boot", "memqos.catalog.pods"}
            assert not heavy & set(sys.modules)

        def test_bad():
            assert False
        """
    )

    result = pytester.runpytest_subprocess()

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("memqos *")
    assert not (pytester.path / "results").exists()


def test_no_tests_at_all_is_pytests_own_matter(pytester):
    assert pytester.runpytest_subprocess().ret == 5


def test_an_empty_selection_observes_nothing(suite, run):
    suite(ONE)

    assert run("-k", "no_such_name").ret == 5


def test_no_more_workers_are_started_than_machines_fit(suite, run):
    suite(ONE)
    asked = len(os.sched_getaffinity(0)) + 1
    result = run("-n", str(asked))
    result.stdout.fnmatch_lines([f"memqos: * at a time instead of {asked}: *", "verdict: conforms*"])


def test_the_cases_of_one_machine_come_together(suite, run):
    for name in ("first", "second"):
        suite('@pytest.mark.claim("demo/one")\ndef test_it(qos_node):\n    pass\n', name=name)
    result = run("--collect-only", "-q", "--memqos-profile=forky,trixie")
    names = [line.partition("/")[2] for line in result.outlines if "::" in line]
    assert names == [
        "test_first.py::test_it[forky]",
        "test_second.py::test_it[forky]",
        "test_first.py::test_it[trixie]",
        "test_second.py::test_it[trixie]",
    ]
