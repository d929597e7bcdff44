"""What the documentation shows is what happens, and its links lead somewhere."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memqos.engine.answer.explain import failure
from memqos.engine.answer.finding import Hop, HopHeld, Verdict, first_lost
from memqos.node.fake import fake_node
from memqos.plugin.collection.catalogue import Catalogue
from tests.docs import claims_page, known_page, settings_page, soaked, versions_page
from tests.docs.snippets import DOCS, matches, pages, snippets
from tests.soak.counting import PUBLISHED, Counts

HERE = Path(sys.executable).parent
PACKAGE = DOCS.parent / "harness" / "memqos"
TREES = Path(__file__).parents[1] / "trees"


def play(page: Path, folder: Path, *, flag: str) -> int:
    """Run a page's commands of one flag in a folder; how many there were."""
    played = 0
    environment = {**os.environ, "PATH": f"{HERE}:{os.environ['PATH']}", "COLUMNS": "120", "NO_COLOR": "1"}
    for snippet in snippets(page):
        if snippet.file:
            (folder / snippet.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / snippet.file).write_text(snippet.body)
            continue
        if snippet.flag != flag:
            continue
        commands = snippet.commands
        for index, (command, shown) in enumerate(commands):
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            where = f"{page.name}:{snippet.line}: $ {command}"
            wanted = snippet.status if index == len(commands) - 1 else 0
            assert done.returncode == wanted, f"{where}\n{done.stdout}"
            printed = [line.rstrip() for line in done.stdout.splitlines()]
            assert matches(shown, printed), f"{where}\nshown:\n{chr(10).join(shown)}\nprinted:\n{done.stdout}"
            played += 1
    return played


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_pages_show_what_happens(page, tmp_path):
    play(page, tmp_path, flag="")


@pytest.mark.parametrize(("page", "count"), [("add-a-release.md", 3), ("add-a-runtime.md", 5)])
def test_what_a_page_adds_is_there_afterwards(page, count, tmp_path, monkeypatch):
    """In a copy of what the page changes: a release and a runtime that do not exist."""
    shutil.copytree(PACKAGE, tmp_path / "harness" / "memqos", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(DOCS.parent / "vm", tmp_path / "vm")
    shutil.copytree(DOCS.parent / "fixtures", tmp_path / "fixtures")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "harness"))
    assert play(DOCS / "how-to" / page, tmp_path, flag="checkout") == count


def test_some_page_shows_commands(tmp_path):
    assert sum(len(snippet.commands) for page in pages() for snippet in snippets(page) if not snippet.file) > 0


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and GitLab make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_to_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text()):
        there = page.parent / target if target else page
        assert anchor in headings(there), f"{page.name} links to {target}#{anchor}, which is no heading there"


def test_a_recorded_tree_is_judged_as_the_page_on_python_shows(tmp_path):
    """It shows no tree, which would be long: the code meets one that a kubelet made."""
    code = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "reference" / "python.md").read_text(), re.DOTALL | re.MULTILINE
    )
    shutil.copy(TREES / "v1.36.3.tiered-0.9-systemd-reserved.json", tmp_path / "tree.json")
    done = subprocess.run([sys.executable, "-c", code[-1]], cwd=tmp_path, text=True, check=True, capture_output=True)
    assert done.stdout.splitlines()[-1] == "exit code 0, 349 conform"


def test_the_readme_shows_a_deviation_as_it_is_told():
    [shown] = re.findall(r"^```text\n(.*?)^```$", (DOCS.parent / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    node, catalogue = fake_node(), Catalogue()
    pod = catalogue.pod("burstable")
    with node.admitted([pod], catalogue.kubelet("v1.27")) as population:
        findings = population.judge_pod(pod)
    high = next(one for one in findings if one.knob == "memory.high" and str(one.subject).startswith("container"))
    said = f"unified memory.high = {high.expected}"
    lost = first_lost([HopHeld(hop=Hop.CONFIG, asked=(said,), held=said)], knob=high.knob, observed="max")
    told = failure(dataclasses.replace(high, verdict=Verdict.DEVIATES, observed="max", lost=lost))
    assert matches(shown.splitlines(), told.splitlines())


def test_the_page_of_claims_is_what_the_suites_claim():
    """`python -m tests.docs.claims_page` writes it anew."""
    assert claims_page.PAGE.read_text() == claims_page.page()


def test_the_page_of_known_deviations_is_the_table_of_faults_and_the_list():
    """`python -m tests.docs.known_page` writes it anew."""
    assert known_page.PAGE.read_text() == known_page.page()


def test_the_page_of_versions_is_the_table_of_features():
    """`python -m tests.docs.versions_page` writes it anew."""
    assert versions_page.PAGE.read_text() == versions_page.page()


def test_the_page_of_settings_is_the_table():
    """`python -m tests.docs.settings_page` writes it anew."""
    assert settings_page.PAGE.read_text() == settings_page.page()


@pytest.mark.parametrize("kind", ["tutorial", "how-to", "reference", "explanation"])
def test_every_kind_of_page_exists_and_is_linked(kind):
    index = (DOCS / "README.md").read_text()
    found = sorted((DOCS / kind).glob("*.md"))

    assert found
    for page in found:
        assert f"({kind}/{page.name})" in index, f"docs/README.md does not link to {kind}/{page.name}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "…"], ["a", "b", "c"], True),
        (["a", "…", "c"], ["a", "x", "y", "c"], True),
        (["a … c"], ["a b c"], True),
        (["a"], ["b"], False),
        (["a", "…", "c"], ["a", "x"], False),
        (["…"], [], True),
    ],
)
def test_shown_against_printed(shown, printed, same):
    assert matches(shown, printed) is same


def test_what_soaks_counted_is_what_the_page_shows():
    """`python -m tests.docs.soaked` prints the table."""
    counts = Counts(PUBLISHED).by_system

    assert counts
    assert soaked.table(counts) in soaked.PAGE.read_text()
