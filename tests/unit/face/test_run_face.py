"""A run's face, and log commands of GitHub and GitLab, by their documents; other text must not become one."""

from pathlib import Path

import pytest

from memqos.engine.answer.finding import Subject
from memqos.face.run_face import Face, GitHub, GitLab, NoService, Tone, service_of
from memqos.report.outcome import Outcome
from tests.clocks import HandClock
from tests.unit.face.made import Remembering, deviating
from tests.unit.report.sample import result

THREE = [
    (Tone.WRONG, "memory.high of container app of pod default/web deviates"),
    (Tone.WRONG, "  expected 63750144, observed max"),
    (Tone.WRONG, "  because the limit is the sum of the containers' (pod sums v1.22)"),
]


def face(**options):
    screen = Remembering()
    return Face(screen, clock=HandClock(), **options), screen


def test_a_deviation_is_printed_at_once_in_three_lines():
    shown, screen = face()
    shown.ends("", deviating("a"))
    assert screen.said == THREE


def test_a_cause_is_printed_once():
    shown, screen = face()
    shown.ends("", deviating("a"))
    shown.ends("", deviating("b", subject=Subject.of_container("app", "default/other")))
    assert screen.said == THREE

    shown.ends("", deviating("c", knob="memory.max"))
    assert screen.said[3] == (Tone.WRONG, "memory.max of container app of pod default/web deviates")


def test_an_error_of_the_machinery_has_its_next_line_and_its_case():
    shown, screen = face()
    shown.ends("", result("a", Outcome.MACHINERY, reason="QEMU ended.", text="QEMU ended.\nLook at qemu.log.\nmore"))
    assert screen.said == [
        (Tone.WRONG, "machinery: QEMU ended."),
        (Tone.WRONG, "  Look at qemu.log."),
        (Tone.WRONG, "  in values/test_values.py::test_pod[a]"),
    ]


def test_conforming_cases_are_printed_only_on_request():
    quiet, silent = face()
    asked, screen = face(verbosity=1)
    hidden = result("b", Outcome.NOT_OBSERVABLE, reason="no\nswap")
    for shown in (quiet, asked):
        shown.ends("gw0", result("a", Outcome.CONFORMS))
        shown.ends("gw1", hidden)
    assert silent.said == []
    assert [line for _, line in screen.said] == [
        "[gw0] conforms  values/test_values.py::test_pod[a]",
        "[gw1] not observable  values/test_values.py::test_pod[b]: no\\nswap",
    ]


def test_twice_verbose_is_the_whole_text():
    shown, screen = face(verbosity=2)
    shown.ends("", deviating("a"))
    assert [line for _, line in screen.said][-2:] == ["  the whole text", "  of it"]


@pytest.mark.parametrize(("verbosity", "told"), [(-1, THREE), (-2, [])])
def test_quiet_prints_only_failures_and_twice_quiet_nothing(verbosity, told):
    shown, screen = face(verbosity=verbosity)
    shown.head(["memqos 1"])
    shown.expects({"values/test_values.py::test_pod[a]": "values"}, expected={}, workers=1)
    shown.starts("", "values/test_values.py::test_pod[a]")
    shown.line("", "boots")
    shown.note("no KVM")
    shown.ends("", deviating("a"))
    assert screen.said == told
    assert (screen.opened, screen.rows) == (0, [])


def test_rows_begin_and_end_and_a_note_is_printed_once():
    shown, screen = face()
    shown.expects({f"values/test_values.py::test_pod[{name}]": "values" for name in "ab"}, expected={}, workers=1)
    for name in "ab":
        shown.starts("", f"values/test_values.py::test_pod[{name}]")
        shown.note("no KVM")
        shown.ends("", result(name, Outcome.CONFORMS))
    assert (screen.opened, screen.rows) == (1, ["values begins", "values ends"])
    assert screen.said == [(Tone.NOTE, "no KVM")]


def test_a_guests_text_moves_no_cursor_and_is_no_command():
    shown, screen = face(service=GitHub(Path("/here")))
    shown.line("", "::error::from\x1b[2J the guest")
    text = "QEMU ended.\n::add-path::/tmp\n\x1b]0;title\x07"
    shown.ends("", result("a", Outcome.MACHINERY, reason="\x1b[31mQEMU\nended.", text=text))
    said = [line for _, line in screen.said]
    assert said[0] == "\\::error::from\\x1b[2J the guest"
    assert not any("\x1b" in line or "\n" in line for line in said)
    assert [line for line in said if line.lstrip().startswith("::")] == [
        "::error title=machinery%3A \\x1b[31mQEMU\\nended.::\\::add-path::/tmp%0Ain values/test_values.py::test_pod[a]"
    ]


def test_each_cause_is_annotated_once_at_its_claim():
    places = {"values/pod": (Path("/here/suites/values/claims.toml"), 12)}
    shown, screen = face(service=GitHub(Path("/here")), places=lambda one: places[one.claim])
    for name in "ab":
        shown.ends("", deviating(name))
    [marked] = [line for _, line in screen.said if line.startswith("::")]
    assert marked == (
        "::error file=suites/values/claims.toml,line=12,"
        "title=memory.high of container app of pod default/web deviates::"
        "expected 63750144, observed max%0A"
        "because the limit is the sum of the containers' (pod sums v1.22)"
    )


HERE = Path("/here")


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"GITHUB_ACTIONS": "true", "CI": "true"}, GitHub),
        ({"CI": "true"}, GitHub),
        ({"CI": "1"}, GitHub),
        ({"GITLAB_CI": "true", "CI": "true"}, GitLab),
        ({"CI": "true", "JENKINS_URL": "http://ci"}, NoService),
        ({"CI": "false"}, type(None)),
        ({}, type(None)),
    ],
)
def test_a_service_is_known_by_its_variables(environment, kind):
    assert type(service_of(environment, here=HERE)) is kind


def test_githubs_errors_name_a_file_of_the_checkout_and_its_line():
    service = service_of({"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/work"}, here=HERE)
    file = Path("/work/suites/values/claims.toml")
    assert service.marks("memory.high deviates", ["expected 1", "because 100 %"], file=file, line=7) == (
        "::error file=suites/values/claims.toml,line=7,title=memory.high deviates::expected 1%0Abecause 100 %25\n"
    )


def test_delimiters_of_properties_and_commands_are_escaped():
    marked = GitHub(HERE).marks("a, b: c%\r\n", ["one\r\ntwo"], file=HERE / "a,b:c.toml", line=1)
    assert marked == "::error file=a%2Cb%3Ac.toml,line=1,title=a%2C b%3A c%25%0D%0A::one%0D%0Atwo\n"


def test_a_file_outside_of_the_checkout_is_not_named():
    assert (
        GitHub(HERE).marks("title", ["text"], file=Path("/usr/lib/claims.toml"), line=1)
        == "::error title=title::text\n"
    )
    assert GitHub(HERE).marks("title", ["text"], file=None, line=1) == "::error title=title::text\n"


def test_githubs_groups_open_and_close():
    assert GitHub(HERE).opens("values", "values (2 cases)", at=5) == "::group::values (2 cases)\n"
    assert GitHub(HERE).closes("values", at=9) == "::endgroup::\n"


def test_gitlabs_sections_have_their_time_and_a_valid_name():
    assert GitLab().opens("trixie containerd+runc", "Title", at=5) == (
        "\x1b[0Ksection_start:5:trixie_containerd_runc[collapsed=true]\r\x1b[0KTitle\n"
    )
    assert GitLab().closes("trixie containerd+runc", at=9) == "\x1b[0Ksection_end:9:trixie_containerd_runc\r\x1b[0K\n"


@pytest.mark.parametrize(
    ("text", "tamed"),
    [
        ("::set-env name=PATH::x", "\\::set-env name=PATH::x"),
        ("fine\n   ::stop-commands::x", "fine\n   \\::stop-commands::x"),
        ("late ##[add-path]/tmp", "late #\\#[add-path]/tmp"),
        ("test.py::test_it", "test.py::test_it"),
    ],
)
def test_a_guests_text_is_no_command(text, tamed):
    """The runner reads `::` at the beginning of a line after blanks, and `##[` anywhere in it."""
    assert GitHub(HERE).tamed(text) == tamed
    assert GitLab().tamed(text) == NoService().tamed(text) == text
