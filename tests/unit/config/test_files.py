"""Settings in a project's files: where they are searched, what they may contain, and errors with their lines."""

import textwrap
from pathlib import Path

import pytest

from memqos.config.files import FromFile, settings_files
from memqos.config.runtime_files import RuntimeFile
from memqos.config.settings import resolve
from memqos.errors import UnknownNameError, UsageError

PROJECT = """\
[project]
name = "mine"  # memqos below

[tool.memqos]
driver = "cgroupfs"
parallel = 4
keep-vm = true
profile = ["trixie", "forky"]
time_budget = "20m"
"""


@pytest.fixture
def wrote(tmp_path):
    def write(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    return write


def test_a_projects_table_is_read_with_its_lines(wrote, tmp_path):
    wrote("pyproject.toml", PROJECT)

    assert settings_files(tmp_path) == {
        "driver": FromFile("cgroupfs", "pyproject.toml:5"),
        "parallel": FromFile("4", "pyproject.toml:6"),
        "keep_vm": FromFile("yes", "pyproject.toml:7"),
        "profile": FromFile("trixie,forky", "pyproject.toml:8"),
        "time_budget": FromFile("20m", "pyproject.toml:9"),
    }
    settings = resolve({}, {}, settings_files(tmp_path))
    assert (settings.parallel, settings.keep_vm, settings.profile) == (4, True, ("trixie", "forky"))


def test_only_the_nearest_folder_with_settings_is_read(wrote, tmp_path):
    wrote("pyproject.toml", PROJECT)
    wrote("nearer/pytest.ini", "[pytest]\nmemqos_topology = one-numa-node\n")
    wrote("nearer/below/pyproject.toml", "[project]\nname = 'silent'\n")

    found = settings_files(tmp_path / "nearer" / "below")
    assert found == {"topology": FromFile("one-numa-node", f"{tmp_path}/nearer/pytest.ini:2")}


@pytest.mark.parametrize(
    ("name", "section"),
    [("pytest.ini", "pytest"), (".pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"),
     ("pyproject.toml", "tool.pytest.ini_options")],
)  # fmt: skip
def test_pytests_own_files_are_read(wrote, tmp_path, name, section):
    quote = '"' if name.endswith(".toml") else ""
    wrote(name, f"[{section}]\naddopts = {quote}-q{quote}\nmemqos_time_budget = {quote}90s{quote}\n")

    assert settings_files(tmp_path) == {"time_budget": FromFile("90s", f"{name}:3")}


def test_pytests_file_wins_over_the_projects(wrote, tmp_path):
    wrote("pyproject.toml", PROJECT)
    wrote("pytest.ini", "[pytest]\nmemqos_driver = systemd\n")

    found = settings_files(tmp_path)
    assert (found["driver"].origin, found["parallel"].origin) == ("pytest.ini:2", "pyproject.toml:6")


def test_the_file_that_pytest_took_wins(wrote, tmp_path):
    wrote("pyproject.toml", PROJECT)
    other = wrote("suites/pytest.ini", "[pytest]\nmemqos_driver = systemd\n")

    found = settings_files(tmp_path, configuration=other)
    assert (found["driver"].origin, found["parallel"].origin) == ("suites/pytest.ini:2", "pyproject.toml:6")


def test_pytests_override_option_wins_over_its_file(wrote, tmp_path):
    other = wrote("suites/pytest.ini", "[pytest]\nmemqos_driver = systemd\n")
    words = ["memqos_driver=cgroupfs", "addopts=-q", "memqos_results=a=b"]

    found = settings_files(tmp_path, configuration=other, overrides=words)
    assert found["driver"] == FromFile("cgroupfs", "-o memqos_driver")
    assert found["results"] == FromFile(f"{tmp_path}/a=b", "-o memqos_results")
    with pytest.raises(UnknownNameError, match="-o memqos_drivers: there is no setting"):
        settings_files(tmp_path, overrides=["memqos_drivers=x"])


def test_paths_are_meant_from_their_files_folder_on(wrote, tmp_path):
    wrote(
        "pyproject.toml",
        """\
        [tool.memqos]
        runtime-binary = "bin/runc"
        runtime-deb = ["a.deb", "/b.deb"]
        topology = "machines/mine.json"
        results = "out"
        """,
    )
    wrote("below/x", "")

    settings = resolve({}, {}, settings_files(tmp_path / "below"))
    assert settings.runtime_binary == (RuntimeFile("", tmp_path / "bin/runc"),)
    assert settings.runtime_deb == (tmp_path / "a.deb", Path("/b.deb"))
    assert settings.topology == f"{tmp_path}/machines/mine.json"
    assert settings.results == tmp_path / "out"


def test_runtimes_that_are_files_are_meant_from_their_files_folder_on(wrote, tmp_path):
    wrote(
        "pyproject.toml",
        """\
        [tool.memqos]
        runtime = ["oci:build/uxc", "oci:./x/youki", "crun"]
        runtime-binary = ["crun=bin/crun"]
        """,
    )

    settings = resolve({}, {}, settings_files(tmp_path))
    assert settings.runtime == ("oci:uxc", "oci:youki", "containerd+crun")
    assert settings.runtime_binary == (
        RuntimeFile("crun", tmp_path / "bin/crun"),
        RuntimeFile("uxc", tmp_path / "build/uxc"),
        RuntimeFile("youki", tmp_path / "x/youki"),
    )


def test_a_list_in_pytests_file_has_a_line_each(wrote, tmp_path):
    wrote(
        "pytest.ini", "[pytest]\nmemqos_kernel_deb =\n    a.deb\n    b.deb\nmemqos_kubernetes =\n    1.27\n    1.36\n"
    )

    settings = resolve({}, {}, settings_files(tmp_path))
    assert settings.kernel_deb == (tmp_path / "a.deb", tmp_path / "b.deb")
    assert settings.kubernetes == ("1.27", "1.36")
    assert settings.origins["kubernetes"] == "pytest.ini:5"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('drivr = "systemd"', r"pyproject.toml:2: there is no setting 'drivr'. Did you mean 'driver'\?"),
        ("driver = 3.5", "toml:2: 'driver' is cgroup drivers, separated by commas, not a number with a point"),
        ("driver = true", "'driver' is cgroup drivers, separated by commas, not true or false"),
        ('topology = ["one-numa-node"]', "not a list"),
        ("profile = [1]", "'profile' is words, separated by commas, not a list"),
        ("keep-vm = 1", "'keep-vm' is yes or no, not '1'"),
        ("results = {a = 1}", "'results' is a folder, not a table"),
        ('keep-vm = true\nkeep_vm = true', "pyproject.toml:3: 'keep-vm' occurs twice"),
        ("driver =", r"pyproject.toml:2: the file is not TOML: .*line 2"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(wrote, tmp_path, line, words):
    wrote("pyproject.toml", f"[tool.memqos]\n{line}\n")
    with pytest.raises(UsageError, match=words):
        settings_files(tmp_path)


def test_an_unknown_key_of_pytests_file_is_one_too(wrote, tmp_path):
    wrote("pytest.ini", "[pytest]\nmemqos_paralel = 3\n")
    with pytest.raises(UnknownNameError, match=r"pytest.ini:2: .*'memqos_paralel'. Did you mean 'memqos_parallel'"):
        settings_files(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.other]\nmemqos = 1\n"),
        ("pyproject.toml", "this is no TOML, and says nothing of the program"),
        ("pytest.ini", "[other]\nmemqos_driver = x\n"),
        ("pytest.ini", "[pytest]\n# memqos_driver = x\n"),
    ],
)
def test_files_without_memqos_settings_are_skipped(wrote, tmp_path, name, text):
    wrote(name, text)
    assert settings_files(tmp_path) == {}


def test_a_table_written_in_one_line_has_its_file_for_an_origin(wrote, tmp_path):
    wrote("pyproject.toml", 'tool.memqos = {driver = "cgroupfs"}\n')
    assert settings_files(tmp_path)["driver"] == FromFile("cgroupfs", "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool]\nmemqos = 3\n", r"pyproject.toml:2: \[tool.memqos\] is not a table"),
        ("[[tool.memqos]]\nparallel = 1\n", r"pyproject.toml:1: \[tool.memqos\] is not a table"),
        ('tool = "memqos"\n', r"pyproject.toml:1: \[tool\] is not a table"),
        ('[tool]\npytest = "memqos"\n', r"pyproject.toml:2: \[tool.pytest\] is not a table"),
        ('[tool.pytest]\nini_options = "memqos"\n', r"pyproject.toml:2: \[tool.pytest.ini_options\] is not a table"),
    ],
)
def test_a_malformed_table_is_rejected(wrote, tmp_path, text, says):
    wrote("pyproject.toml", text)
    with pytest.raises(UsageError, match=says):
        settings_files(tmp_path)
