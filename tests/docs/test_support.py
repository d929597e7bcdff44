"""The page on support says what pyproject.toml, the launcher, the profiles and the engine's table say."""

import re
import subprocess
import sys
import tomllib

import pytest

from memqos.engine.answer.document import FORMAT
from memqos.engine.releases.table import PREVIEW, RELEASES
from memqos.report.bundle import SCHEMA
from memqos.version import __version__
from memqos.vm.host.programs import MIN_QEMU
from tests.docs.snippets import DOCS

ROOT = DOCS.parent
PAGE = (DOCS / "reference" / "support.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def rows(heading):
    """The cells of the table below a heading, by first cell."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells, heading
    return {first: rest for first, *rest in cells}


REQUIRED = rows("Requirements and tested versions")


def test_it_is_about_this_minor_version():
    assert f"what memqos {__version__.rpartition('.')[0]} requires" in PAGE


def test_python_is_that_of_the_project():
    assert f">={REQUIRED['Python'][0].split()[0]}" == PROJECT["requires-python"]


def test_pytest_is_that_of_the_project():
    [bound] = [one for one in PROJECT["dependencies"] if re.match(r"pytest\b(?!-)", one)]

    assert f"pytest>={REQUIRED['pytest'][0].split()[0]}" == bound


def test_qemu_is_that_of_the_package_and_of_the_launcher():
    named = REQUIRED["QEMU"][0].split()[0]

    assert named == ".".join(map(str, MIN_QEMU))
    assert f"min_qemu={named}\n" in (ROOT / "memqos").read_text()


def test_kernels_are_those_of_the_profiles():
    kernels = set()
    for file in (ROOT / "vm" / "profiles").glob("*.toml"):
        kernels.add(re.search(r"(?:kernel|backports:) (\d+\.\d+)", tomllib.loads(file.read_text())["purpose"])[1])

    assert REQUIRED["kernel of a machine under test"][1] == ", ".join(
        sorted(kernels, key=lambda one: [int(part) for part in one.split(".")])
    )


def test_kubernetes_releases_are_those_of_the_engine():
    assert REQUIRED["Kubernetes"][0] == f"1.{RELEASES[0]} to 1.{RELEASES[-1]}"
    assert list(RELEASES) == list(range(RELEASES[0], RELEASES[-1] + 1))
    assert REQUIRED["Kubernetes, not released"][0] == f"`1.{PREVIEW}-preview`"


def test_formats_are_those_that_are_written():
    formats = rows("Formats")

    assert formats["results (`schema` in `bundle.json`)"] == [f"`{SCHEMA}`", f"`{SCHEMA}`"]
    assert formats["answers of `expect`, `audit` and others with `--json`"][1] == f"`memqos_format` {FORMAT}"


@pytest.mark.parametrize("what", [what for what in rows("Removed") if what.startswith("`memqos ")])
def test_removed_commands_are_gone(what):
    words = what.strip("`").split()
    done = subprocess.run([sys.executable, "-m", *words, "--help"], capture_output=True, text=True, check=False)

    assert (done.returncode, f"there is no command '{words[-1]}'" in done.stderr) == (4, True)


@pytest.mark.parametrize("table", ["Deprecations", "Removed"])
def test_each_row_of_what_ends_names_versions(table):
    for what, cells in rows(table).items():
        if what != "none":
            assert all(re.fullmatch(r"\d+\.\d+(\.\d+)?", cell) for cell in cells[:-1]), what
            assert cells[-1], what


def test_the_changelog_tells_removals_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(rf"^## {re.escape(__version__)}(?: - \d{{4}}-\d\d-\d\d)?$", changelog, re.MULTILINE)
    assert len(changelog.splitlines()) < 150
    for what, (version, _) in rows("Removed").items():
        if version == __version__ and what.startswith("`"):
            assert what in changelog, what
