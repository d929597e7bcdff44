"""Claims by profiles: cells, and differences between conforming profiles."""

from memqos.engine.answer.finding import Verdict
from memqos.engine.plan import Reason
from memqos.report import summary
from memqos.report.bundle import Bundle
from memqos.report.matrix import Matrix, matrix_lines, matrix_of
from memqos.report.outcome import Outcome
from memqos.report.words import again
from tests.documents import misfits
from tests.unit.report.sample import BUNDLE, finding, result


def rule(text, revision=""):
    return Reason(rule=text, revision=revision, source="", inputs=(), arithmetic="", rounding="")


def weight(value, rule_text):
    reason = Reason(
        rule="cpu.weight is made of the shares", revision="", source="", inputs=(), arithmetic="", rounding="",
        because=(rule(rule_text),),
    )  # fmt: skip
    return finding(Verdict.CONFORMS, knob="cpu.weight", expected=value, observed=value, reason=reason)


def one(profile, case, outcome=Outcome.CONFORMS, claim="values/pod", findings=()):
    return result(f"{profile}-{case}", outcome, profile=profile, claim=claim, findings=tuple(findings))


RESULTS = (
    one("old", "a", findings=[weight("1", "linear"), finding(Verdict.CONFORMS)]),
    one("old", "b", findings=[weight("39", "linear")]),
    one("new", "a", findings=[weight("59", "quadratic"), finding(Verdict.CONFORMS)]),
    one("new", "b", Outcome.DEVIATES, findings=[weight("60", "quadratic")]),
    one("old", "c", claim="swap/limit", findings=[finding(Verdict.CONFORMS, knob="swap", observed="63750144")]),
    one("new", "c", Outcome.DEVIATES, claim="swap/limit", findings=[finding(Verdict.DEVIATES, knob="swap")]),
    one("new", "d", Outcome.NOT_OBSERVABLE, claim="psi/stall"),
    result("anywhere", Outcome.CONFORMS),
)


def test_one_profile_has_no_matrix():
    assert matrix_of([one("old", "a"), result("b", Outcome.CONFORMS)]) == Matrix()
    assert list(matrix_lines(Matrix())) == []


def test_cells_count_each_claims_cases_by_outcome():
    matrix = matrix_of(RESULTS)
    assert matrix.profiles == ("old", "new")
    assert {row.claim: row.cells for row in matrix.rows} == {
        "values/pod": {"old": {"conforms": 2}, "new": {"conforms": 1, "deviates": 1}},
        "swap/limit": {"old": {"conforms": 1}, "new": {"deviates": 1}},
        "psi/stall": {"new": {"not observable": 1}},
    }


def test_a_case_without_a_claim_is_under_its_chapter():
    matrix = matrix_of([one("old", "a", claim=""), one("new", "a", claim="")])
    assert [row.claim for row in matrix.rows] == ["values"]


def test_expectations_that_differ_by_the_same_rules_are_one_difference():
    [weights, _] = matrix_of(RESULTS).differences
    assert (weights.claim, weights.knob, weights.what, weights.count) == ("values/pod", "cpu.weight", "expected", 2)
    assert weights.values == {"old": "1", "new": "59"}
    assert weights.reasons == {
        "old": "cpu.weight is made of the shares; linear",
        "new": "cpu.weight is made of the shares; quadratic",
    }


def test_a_deviation_from_an_equal_expectation_is_a_difference():
    [_, swap] = matrix_of(RESULTS).differences
    assert (swap.claim, swap.what, swap.values) == ("swap/limit", "observed", {"old": "63750144", "new": "max"})
    assert swap.reasons == {}


def test_the_order_in_which_profiles_were_run_makes_no_second_difference():
    matrix = matrix_of([RESULTS[0], RESULTS[2], RESULTS[3], RESULTS[1]])
    [weights] = matrix.differences
    assert (weights.count, list(weights.values)) == (2, ["old", "new"])


def crossed():
    """Two runtimes under two drivers on one profile: crun under systemd deviates, all others conform."""
    for runtime in ("containerd+runc", "oci:crun"):
        for driver in ("systemd", "cgroupfs"):
            fails = (runtime, driver) == ("oci:crun", "systemd")
            outcome = Outcome.DEVIATES if fails else Outcome.CONFORMS
            yield result(
                f"{runtime}-{driver}-systemd",
                outcome,
                claim="values/pod",
                profile="trixie",
                runtime=runtime,
                driver=driver,
                findings=(finding(Verdict.DEVIATES if fails else Verdict.CONFORMS),),
            )


def test_runtimes_and_drivers_are_columns_named_by_their_difference():
    bundle = Bundle(started="", ended="", exit_code=1, results=tuple(crossed()))
    document = bundle.to_json()["matrix"]
    assert document["columns"][3] == {
        "name": "oci:crun/cgroupfs",
        "profile": "trixie",
        "runtime": "oci:crun",
        "driver": "cgroupfs",
    }
    assert document["profiles"] == ["trixie"]
    assert misfits(bundle.to_json(), "bundle") == []
    assert list(matrix_lines(matrix_of(bundle.results))) == [
        "claim       containerd+runc  containerd+runc  oci:crun    oci:crun",
        "            systemd          cgroupfs         systemd     cgroupfs",
        "values/pod  conforms 1       conforms 1       deviates 1  conforms 1",
        "",
        "differences between the columns:",
        "  memory.high observed (values/pod): container app of pod default/web",
        "    containerd+runc/systemd, containerd+runc/cgroupfs, oci:crun/cgroupfs: 63750144",
        "    oci:crun/systemd: max",
    ]


def of_ten(claims):
    """Results of ten systems; only oci:crun under cgroupfs deviates, and only in the first claim."""
    for claim in range(claims):
        for runtime in ("containerd+runc", "containerd+crun", "docker+runc", "oci:runc", "oci:crun"):
            for driver in ("systemd", "cgroupfs"):
                fails = (claim, runtime, driver) == (0, "oci:crun", "cgroupfs")
                yield result(
                    f"{claim}-{runtime}-{driver}",
                    Outcome.DEVIATES if fails else Outcome.CONFORMS,
                    claim=f"values/{claim}",
                    profile="trixie",
                    runtime=runtime,
                    driver=driver,
                    findings=(finding(Verdict.DEVIATES if fails else Verdict.CONFORMS),),
                )


def test_many_columns_are_in_blocks_and_many_claims_are_counted():
    lines = list(matrix_lines(matrix_of(tuple(of_ten(21))), whole=False))
    assert lines == [
        "claim     containerd+runc  containerd+runc  containerd+crun  containerd+crun  docker+runc",
        "          systemd          cgroupfs         systemd          cgroupfs         systemd",
        "values/0  conforms 1       conforms 1       conforms 1       conforms 1       conforms 1",
        "",
        "claim     docker+runc  oci:runc    oci:runc    oci:crun    oci:crun",
        "          cgroupfs     systemd     cgroupfs    systemd     cgroupfs",
        "values/0  conforms 1   conforms 1  conforms 1  conforms 1  deviates 1",
        "20 further claims conform in every column that has them: see matrix.txt",
        "",
        "differences between the columns:",
        "  memory.high observed (values/0): container app of pod default/web",
        "    the 9 others: 63750144",
        "    oci:crun/cgroupfs: max",
    ]


def test_many_claims_that_all_conform_are_one_line():
    everywhere = [one(profile, str(n), claim=f"values/{n}") for n in range(21) for profile in ("old", "new")]
    assert list(matrix_lines(matrix_of(everywhere), whole=False)) == [
        "21 claims conform in every column that has them: see matrix.txt"
    ]


def test_few_claims_and_the_whole_matrix_have_every_row():
    few = list(matrix_lines(matrix_of(tuple(of_ten(20))), whole=False))
    assert [line.split()[0] for line in few if line.startswith("values/")] == [f"values/{n}" for n in range(20)] * 2
    everything = list(matrix_lines(matrix_of(tuple(of_ten(21)))))
    assert sum(line.startswith("values/") for line in everything) == 42


def test_findings_of_one_knob_are_compared_in_their_order():
    """One accepts the next request after a refusal that is required; the other is right as well."""
    refused, taken, following = (
        finding(Verdict.CONFORMS, knob="create", expected=words, observed=words)
        for words in ("refused", "taken", "the next request is accepted")
    )
    cases = [one("old", "a", findings=[refused, following]), one("new", "a", findings=[taken])]
    [difference] = matrix_of(cases).differences
    assert difference.values == {"old": "refused", "new": "taken"}


def measured(profile, verdict, expected, observed):
    found = finding(verdict, knob="usage", expected=expected, observed=observed, measured=True)
    return one(profile, "a", Outcome(verdict.value), findings=[found])


def test_measured_bounds_are_no_difference():
    bounds = [
        measured("old", Verdict.CONFORMS, "1048576 to 2097152", "1400000"),
        measured("new", Verdict.CONFORMS, "1052672 to 2101248", "1500000"),
    ]
    assert matrix_of(bounds).differences == ()

    wrong = [bounds[0], measured("new", Verdict.DEVIATES, "1052672 to 2101248", "0")]
    [difference] = matrix_of(wrong).differences
    assert (difference.what, dict(difference.values)) == ("observed", {"old": "1400000", "new": "0"})


def test_conforming_observations_are_no_difference():
    """Two machines use different amounts of memory within the expected bound."""
    cases = [
        one(profile, "a", findings=[finding(Verdict.CONFORMS, observed=observed)])
        for profile, observed in (("old", "1"), ("new", "2"))
    ]
    assert matrix_of(cases).differences == ()


def test_the_text_is_a_table_and_the_differences():
    assert list(matrix_lines(matrix_of(RESULTS))) == [
        "claim       old         new",
        "values/pod  conforms 2  deviates 1 of 2",
        "swap/limit  conforms 1  deviates 1",
        "psi/stall   -           not observable 1",
        "",
        "differences between the columns:",
        "  cpu.weight expected (values/pod): container app of pod default/web, and 1 more",
        "    old: 1  [cpu.weight is made of the shares; linear]",
        "    new: 59  [cpu.weight is made of the shares; quadratic]",
        "  swap observed (swap/limit): container app of pod default/web",
        "    old: 63750144",
        "    new: max",
    ]


def test_the_bundles_matrix_fits_its_schema():
    bundle = Bundle(started="", ended="", exit_code=1, results=RESULTS)
    document = bundle.to_json()
    assert misfits(document, "bundle") == []
    assert document["matrix"]["profiles"] == ["old", "new"]
    assert "matrix" not in BUNDLE.to_json()


def test_the_summary_shows_it():
    text = "\n".join(
        summary.summary_lines(Bundle(started="", ended="", exit_code=1, results=RESULTS), results_folder="r")
    )
    assert "\nvalues/pod  conforms 2  deviates 1 of 2\n" in text


def test_the_command_that_repeats_a_case_names_all_profiles():
    settings = {
        "profile": {"value": ["old", "new"], "origin": "--profile"},
        "kernel_deb": {"value": ["/a b.deb", "/c.deb"], "origin": "--kernel-deb"},
        "runtime_deb": {"value": [], "origin": "MEMQOS_RUNTIME_DEB"},
    }
    bundle = Bundle(started="", ended="", exit_code=1, results=RESULTS, settings=settings)
    assert again(bundle, RESULTS[0]) == (
        "memqos run --profile old,new --kernel-deb '/a b.deb' --kernel-deb /c.deb "
        "'values/test_values.py::test_pod[old-a]'"
    )
