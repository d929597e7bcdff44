"""Log commands of GitHub and GitLab, by their documents, and other text that must not become one."""

from pathlib import Path

import pytest

from memqos.face.run_face import GitHub, GitLab, NoService, service_of

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
