"""Names of cases in lists with several systems."""

import dataclasses

from memqos.engine.answer.finding import Verdict
from memqos.report.bundle import Merged, Part
from memqos.report.ci_results import junit_xml
from memqos.report.markdown import markdown
from memqos.report.matrix import names_of
from memqos.report.outcome import Outcome
from memqos.report.summary import summary_lines
from memqos.report.verdict import causes_of
from memqos.report.words import again
from tests.unit.report.sample import BUNDLE, finding, result

BAD = (finding(Verdict.DEVIATES),)
CASE = "values/test_values.py::test_pod"


def case(name, profile="trixie", runtime="containerd+runc", outcome=Outcome.DEVIATES, **changes):
    changes = {"findings": BAD if outcome is Outcome.DEVIATES else (), "reason": "why", **changes}
    return result(name, outcome, profile=profile, runtime=runtime, driver="systemd", **changes)


def names(*results):
    found = names_of(results)
    return [found[id(one)] for one in results]


def test_cases_of_one_system_have_their_ids():
    assert names(case("a"), case("b")) == [f"{CASE}[a]", f"{CASE}[b]"]


def test_with_several_systems_their_difference_follows_the_id():
    assert names(case("a"), case("a", runtime="crio+crun"), case("b", profile="forky")) == [
        f"{CASE}[a] (trixie/containerd+runc)", f"{CASE}[a] (trixie/crio+crun)", f"{CASE}[b] (forky/containerd+runc)"
    ]  # fmt: skip


def test_a_system_in_the_id_is_not_repeated():
    assert names(case("a-forky", profile="forky"), case("trixie-a"), case("a")) == [
        f"{CASE}[a-forky]", f"{CASE}[trixie-a]", f"{CASE}[a] (trixie)"
    ]  # fmt: skip


def test_cases_that_differ_only_by_their_machines_have_the_machine():
    assert names(case("a", machine="one-main-0"), case("a", machine="two-main-0"), case("b")) == [
        f"{CASE}[a] (one-main-0)", f"{CASE}[a] (two-main-0)", f"{CASE}[b]"
    ]  # fmt: skip


def test_unknown_parts_of_a_system_are_left_out_of_its_name():
    assert names(case("a"), case("a", profile="forky", runtime=""))[1] == f"{CASE}[a] (forky)"


def test_a_case_without_a_system_has_its_id():
    alone = result("none", Outcome.USAGE, machine="")
    assert names(alone, case("a"), case("a", profile="forky"))[0] == f"{CASE}[none]"


def test_the_same_case_on_two_systems_is_two_cases_of_a_cause():
    (cause,) = causes_of([case("a"), case("a", profile="forky")])
    assert [one.profile for one in cause.results] == ["trixie", "forky"]


SEVERAL = (
    *(case(name, profile) for profile in ("trixie", "forky") for name in "ab"),
    *(case("c", profile, outcome=Outcome.NOT_OBSERVABLE) for profile in ("trixie", "forky")),
)


def several():
    return dataclasses.replace(BUNDLE, results=SEVERAL)


def test_the_summary_names_the_systems():
    lines = list(summary_lines(several(), results_folder="out"))

    assert f"    case     {CASE}[a] (trixie)" in lines
    alike = "test_pod[a] (trixie), test_pod[b] (trixie), test_pod[a] (forky) and 1 more"
    assert f"    alike    4 findings in 4 cases: {alike}" in lines
    assert f"  {CASE}[c] (trixie) and 1 more: why" in lines


def test_markdown_and_junit_name_the_systems():
    assert r"- values/test\_values.py::test\_pod\[a\] \(forky\)" in markdown(several())
    text = junit_xml(several())
    assert 'name="test_pod[a] (trixie)"' in text
    assert 'name="test_pod[a] (forky)"' in text


def part(name, **settings):
    given = {key: {"value": value, "origin": f"--{key}"} for key, value in settings.items()}
    return Part(name=name, started="", ended="", exit_code=1, cases=1, versions={}, host={}, settings=given)


def test_a_case_of_merged_results_is_run_again_with_the_settings_of_its_part():
    default = {"profile": ["trixie"], "driver": ["cgroupfs"]}
    parts = (part("one", **default, runtime=["crio+crun"]), part("one-more", **default, runtime=["oci:crun"]))
    bundle = dataclasses.replace(BUNDLE, settings={}, merged=Merged(parts=parts))

    first = again(bundle, case("a", machine="one-main-0"))
    more = again(bundle, case("a", machine="", folder="tests/one-more-values_test_pod"))

    assert first == f"memqos run --profile trixie --driver cgroupfs --runtime crio+crun '{CASE}[a]'"
    assert more == f"memqos run --profile trixie --driver cgroupfs --runtime oci:crun '{CASE}[a]'"


def test_without_settings_of_its_part_a_case_is_run_again_on_its_system():
    bundle = dataclasses.replace(BUNDLE, settings={}, merged=Merged(parts=(part("one"),)))

    assert again(bundle, case("a", machine="two-main-0", runtime="crio+crun")) == (
        f"memqos run --profile trixie --runtime crio+crun --driver systemd '{CASE}[a]'"
    )
    there = case("a", profile="ssh://root@node7", machine="two-main-0")
    assert "--target ssh://root@node7 --runtime containerd+runc" in again(bundle, there)
