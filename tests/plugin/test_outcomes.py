"""The end of a test: outcomes, exit codes, and the report."""

import json
import textwrap

import pytest

pytest_plugins = ["pytester"]

CONFORMS = "qos_evidence.settle(finding('conforms', observed='4096'))"
DEVIATES = "qos_evidence.settle(finding('conforms', observed='4096'), finding('deviates'))"
NOT_OBSERVABLE = "qos_evidence.settle(finding('not observable', why_not='the file is missing'))"


def one_test(body, marker='@pytest.mark.claim("demo/one")'):
    lines = textwrap.indent(body, "    ")
    return f"{marker}\ndef test_it(qos_evidence):\n{lines}\n"


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (CONFORMS, (0, "conforms")),
        (DEVIATES, (1, "deviates")),
        ("assert 1 == 2", (1, "deviates")),
        ("pytest.fail('it is not so')", (1, "deviates")),
        (NOT_OBSERVABLE, (5, "not observable")),
        ("qos_evidence.settle()", (5, "not observable")),
        ("pytest.skip('not here')", (5, "not observable")),
        ("raise MachineryError('the harness broke.')", (3, "machinery")),
        ("raise RuntimeCallError('StartContainer failed.')", (3, "machinery")),
        ("raise EnvironmentNotAbleError('no QEMU.')", (6, "machinery")),
        ("raise EnactorNotAbleError('memqos only reads pods here.')", (5, "not observable")),
        ("raise UsageError('no such pod.')", (4, "usage")),
        ("None + 1", (3, "machinery")),
        ("pass", (3, "machinery")),
    ],
)
def test_outcome_and_exit_code_of_one_test(suite, run, pytester, body, ending):
    code, outcome = ending
    suite(one_test(body))

    result = run()

    assert result.ret == code
    [entry] = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert entry["outcome"] == outcome
    assert entry["claim"] == "demo/one"
    assert entry["chapter"] == "demo"
    assert entry["id"] == "demo/test_demo.py::test_it"


def test_machinery_in_the_call_is_an_error_and_not_a_failure(suite, run):
    suite(one_test("raise MachineryError('the harness broke.', next_step='Mend it.')"))

    result = run()

    result.stdout.fnmatch_lines(["machinery: the harness broke.", "  Mend it.", "demo: 1 machinery, in *"])
    result.stdout.fnmatch_lines(["machinery:", "  the harness broke.", "    Mend it."])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*test_demo.py:*MachineryError*")


def test_a_deviation_reads_as_cgroup_knob_expected_observed_without_traceback(suite, run):
    suite(one_test(DEVIATES))

    result = run()

    result.stdout.fnmatch_lines(
        [
            "demo: 1 deviates, in *",
            "deviations:",
            "  memory.high of container app of pod default/web is max, expected 4096",
            "    cgroup   /kubepods/pod1/app",
        ]
    )
    result.stdout.no_fnmatch_line("*qos_evidence.settle*")


def test_the_hop_that_lost_a_value_is_reported_everywhere_with_its_evidence(suite, run, pytester):
    line = "first lost: the OCI runtime (config.json had 4096, memory.high has max)"
    documents = {"app-0.config.json": "{}"}
    loss = f"Loss(by='the OCI runtime', told='{line}', documents={documents})"
    body = f"from memqos.engine.answer.finding import Loss\nqos_evidence.settle(finding('deviates', lost={loss}))"
    suite(one_test(body))

    result = run()

    result.stdout.fnmatch_lines(["  *; first lost by the OCI runtime", "deviations:", f"    hops     {line}"])
    [entry] = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert entry["findings"][0]["lost"] == {"by": "the OCI runtime", "told": line, "hops": []}
    assert (pytester.path / "out" / entry["folder"] / "app-0.config.json").read_text() == "{}"
    assert line in (pytester.path / "out/junit_01.xml").read_text()


def test_an_error_that_carries_its_finding_counts_it(suite, run, pytester):
    body = """
from memqos.errors import NonconformanceError
refused = finding('deviates', knob='create', expected='taken', observed='refused: one page too high')
raise NonconformanceError('it refuses.', data={'finding': refused})
"""
    suite(one_test(body))

    result = run()

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*create of container app of pod default/web is refused: one page too high*"])
    [entry] = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [(one["knob"], one["verdict"]) for one in entry["findings"]] == [("create", "deviates")]
    result.stdout.fnmatch_lines(["verdict: deviates (1 case observed, 1 deviate; 1 finding about *, 1 deviate)"])


def test_two_v_bring_the_traceback_back(suite, run):
    suite(one_test(DEVIATES))

    run("-vv").stdout.fnmatch_lines(["*qos_evidence.settle*"])


def test_the_worst_finding_decides_and_none_is_dropped(suite, run, pytester):
    suite(one_test("qos_evidence.settle(finding('not observable', why_not='gone'), finding('deviates'))"))

    assert run().ret == 1
    [entry] = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [finding["verdict"] for finding in entry["findings"]] == ["not observable", "deviates"]


def test_an_error_shared_by_many_tests_is_printed_once(suite, run):
    suite(
        """
        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("number", range(5))
        def test_it(qos_evidence, number):
            raise MachineryError("QEMU ended with status 1. The console's last line:\\nKernel panic")
        """
    )

    result = run()

    assert result.ret == 3
    # Once when it is found, and once at the end.
    assert result.stdout.str().count("Kernel panic") == 2
    result.stdout.fnmatch_lines(["machinery: QEMU ended with status 1.*", "  Kernel panic", "demo: 5 machinery, in *"])
    result.stdout.fnmatch_lines(["  QEMU ended with status 1.*", "    alike    5 cases: test_it?0?, *"])


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        ([CONFORMS, DEVIATES, "raise MachineryError('x.')"], 1),
        ([CONFORMS, NOT_OBSERVABLE], 0),
        ([CONFORMS, "raise MachineryError('x.')"], 3),
        ([NOT_OBSERVABLE, "raise MachineryError('x.')"], 3),
        (["raise UsageError('x.')", "raise MachineryError('x.')"], 4),
        (["raise EnvironmentNotAbleError('x.')", "raise MachineryError('x.')"], 6),
        ([NOT_OBSERVABLE, NOT_OBSERVABLE], 5),
    ],
)
def test_exit_code_of_several_tests(suite, run, bodies, code):
    for number, body in enumerate(bodies):
        suite(one_test(body), name=f"number_{number}")

    assert run().ret == code


def test_an_error_in_setup_or_teardown_is_machinery(suite, run, pytester):
    suite(
        """
        @pytest.fixture
        def before():
            raise RuntimeError("no room")

        @pytest.fixture
        def after():
            yield
            raise RuntimeError("stuck")

        @pytest.mark.claim("demo/one")
        def test_before(before, qos_evidence):
            pass

        @pytest.mark.claim("demo/one")
        def test_after(after, qos_evidence):
            qos_evidence.settle(finding("conforms"))
        """
    )

    assert run().ret == 3
    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [entry["reason"] for entry in results] == ["RuntimeError: no room", "RuntimeError: stuck"]
    assert {entry["outcome"] for entry in results} == {"machinery"}


def test_findings_that_were_collected_and_not_settled_still_count(suite, run):
    suite(one_test("try:\n    qos_evidence.settle(finding('deviates'))\nexcept Exception:\n    pass"))

    assert run().ret == 1


def test_a_failing_test_outside_memqos_is_no_deviation(suite, run, pytester):
    suite(one_test(CONFORMS))
    (pytester.path / "suites" / "test_plain.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")

    result = run()

    assert result.ret == 3
    result.stdout.fnmatch_lines(["*a test that does not belong to memqos failed.", "verdict: machinery failed*"])
    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    assert [entry["id"] for entry in results] == ["demo/test_demo.py::test_it"]


def test_a_hook_amends_findings_before_they_are_judged(suite, run, pytester):
    suite(one_test(DEVIATES))
    (pytester.path / "suites" / "conftest.py").write_text(
        textwrap.dedent(
            """
            import dataclasses
            from memqos.engine.answer.finding import Verdict

            def pytest_memqos_finding(finding, item):
                if finding.verdict is Verdict.DEVIATES:
                    return dataclasses.replace(finding, verdict=Verdict.NOT_OBSERVABLE, why_not="known to be broken")
            """
        )
    )

    result = run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_it: *known to be broken"])
    counts = "0 cases observed, 1 observed in part, 0 deviate; *1 finding not observable"
    result.stdout.fnmatch_lines([f"verdict: conforms as far as observed ({counts})"])


def test_memqos_own_writes_do_not_prove_a_claim_about_the_runtime(suite, run, pytester):
    """Values that memqos wrote in the kubelet's place and reads back agree with themselves."""
    suite("""
        @pytest.mark.claim("demo/one")
        @pytest.mark.parametrize("makers", [[Setter.MEMQOS], [Setter.MEMQOS, Setter.RUNTIME]], ids=["own", "both"])
        def test_it(qos_evidence, makers):
            qos_evidence.settle(finding("conforms", observed="4096", set_by=setter) for setter in makers)
    """)
    result = run()

    bundle = json.loads((pytester.path / "out" / "bundle.json").read_text())
    assert {one["id"][-5:]: one["outcome"] for one in bundle["results"]} == {
        "[own]": "not observable",
        "both]": "conforms",
    }
    assert bundle["results"][0]["reason"].startswith("the claim is about the runtime, and nothing set")
    assert bundle["counts"]["set_by"]["memqos in the kubelet's place"]["conforms"] == 2
    result.stdout.fnmatch_lines(
        ["verdict: conforms (1 case observed, 0 deviate; 1 finding about *; 2 about memqos's own*"]
    )
