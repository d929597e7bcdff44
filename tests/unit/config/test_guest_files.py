"""Files for the machine, and units, from options, variables and a project's files."""

from pathlib import Path

import pytest

from memqos.config.files import settings_files
from memqos.config.settings import PlacedFile, placed_file, resolve
from memqos.errors import UsageError


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("crio:/usr/local/bin/crio", PlacedFile(Path("crio"), "/usr/local/bin/crio")),
        ("./a:b/crio:/opt/crio:755", PlacedFile(Path("a:b/crio"), "/opt/crio", 0o755)),
        ("etc/crio:/etc/crio:0644", PlacedFile(Path("etc/crio"), "/etc/crio", 0o644)),
        ("build/crio:/opt/", PlacedFile(Path("build/crio"), "/opt/crio")),
    ],
)
def test_a_file_is_written_with_its_place(text, placed):
    assert placed_file(text, "--guest-file") == placed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crio", "'crio' is not an absolute path in the machine"),
        ("crio:usr/bin/crio", "is not an absolute path"),
        (":/usr/bin/crio", "is not an absolute path"),
        ("", "is not an absolute path"),
        ("crio:/usr/../etc/crio", "'/usr/../etc/crio' is not a plain path"),
        ("crio:/usr//bin", "is not a plain path"),
        ("crio:/opt/crio:", "'' is not a mode such as 644"),
        ("crio:/opt/crio:999", "'999' is not a mode"),
        ("crio:/opt/crio:\u0667\u0665\u0665", "is not a mode"),
    ],
)
def test_a_malformed_destination_is_rejected_with_the_form(text, words):
    with pytest.raises(UsageError, match=f"--guest-file: .*{words}") as told:
        placed_file(text, "--guest-file")
    assert "SRC:DST:MODE" in told.value.next_step


def test_options_variables_and_files_give_several(tmp_path):
    given = resolve(
        {"guest_file": ("a:/opt/a", "b:/opt/b:700"), "guest_unit": ("crio", "a.socket", "crio.service")}, {}
    )
    assert [str(one) for one in given.guest_file] == ["a:/opt/a", "b:/opt/b:700"]
    assert given.guest_unit == ("crio.service", "a.socket")

    environment = {"MEMQOS_GUEST_FILE": "a:/opt/a\nb:/opt/b", "MEMQOS_GUEST_UNIT": "one, two.path"}
    given = resolve({}, environment)
    assert [one.destination for one in given.guest_file] == ["/opt/a", "/opt/b"]
    assert given.guest_unit == ("one.service", "two.path")

    (tmp_path / "pyproject.toml").write_text(
        '[tool.memqos]\nguest-file = ["build/crio:/opt/crio"]\nguest-unit = ["crio"]\n'
    )
    given = resolve({}, {}, settings_files(tmp_path))
    assert given.guest_file == (PlacedFile(tmp_path / "build/crio", "/opt/crio"),)
    assert given.to_json()["guest_file"]["value"] == [f"{tmp_path}/build/crio:/opt/crio"]


@pytest.mark.parametrize("name", ["-x", "a b", "a/b", "a;b", "", "é"])
def test_what_is_no_unit_is_refused(name):
    with pytest.raises(UsageError, match=r"--guest-unit: '.*' is not a unit's name such as crio\.service"):
        resolve({"guest_unit": (name,)}, {})
