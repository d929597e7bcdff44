"""What a person does with the page of a fleet's audit, in a browser: look, filter, unfold, go by keyboard, print.

The page is what `memqos audit FOLDER --html` writes about six recordings. Of 6 pods on each, the files of nodes 1 and 2
were changed, a file of node 4 is missing, and the recording of node 3 is no recording.
"""

import json

import pytest

from memqos.cli.main import run
from tests.recorded_nodes import write_fleet

ORDER = ["node-1", "node-2", "node-0003.json", "node-4", "node-0", "node-5"]
"""Deviating nodes first, then those that were not judged, those with too little evidence, and the others."""


def _apps(document):
    return [files for files in document["cgroups"].values() if files.get("comm") == "app"]


def _without_high(document):
    for files in _apps(document):
        if files["memory.high"].isdigit() and files["memory.high"] != "0":
            files["memory.high"] = "max"


def _without_high_and_low(document):
    _without_high(document)
    document["cgroups"]["/kubepods.slice/kubepods-burstable.slice"]["memory.low"] = "4096"


def _without_a_file(document):
    del _apps(document)[0]["memory.max"]


@pytest.fixture(scope="session")
def audited(tmp_path_factory):
    """The page, as the command writes it."""
    nodes, file = tmp_path_factory.mktemp("nodes"), tmp_path_factory.mktemp("page") / "fleet.html"
    write_fleet(nodes, nodes=6, pods=6, different=6)
    for number, change in ((1, _without_high), (2, _without_high_and_low), (4, _without_a_file)):
        recording = nodes / f"node-{number:04}.json"
        document = json.loads(recording.read_text())
        change(document)
        recording.write_text(json.dumps(document))
    (nodes / "node-0003.json").write_text("[]")
    assert run(["audit", str(nodes), "--jobs", "1", "--html", str(file)]) == 1
    return file


@pytest.fixture
def fleet(opened, audited):
    """Opens the page, or another one."""

    def call(fragment="", *, file=audited, **options):
        return opened(fragment, file=file, ready="footer", **options)

    return call


def shown_nodes(page):
    rows = page.locator("section.nodes tbody tr")
    return [one.locator("th").inner_text().rpartition("/")[2] for one in rows.all() if one.is_visible()]


def test_it_opens_with_the_worst_state_and_a_row_for_each_node(fleet):
    page = fleet()

    assert page.get_by_role("heading", level=1).inner_text() == "DRIFTED"
    states = ["2 DRIFTED", "1 NOT JUDGED", "1 INSUFFICIENT EVIDENCE", "2 FULFILLED"]
    assert page.locator(".keys li").all_inner_texts() == states
    assert shown_nodes(page) == ORDER
    cells = page.locator("section.nodes tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells == ["1.36", "DRIFTED", "partly in force", cells[3], "181", "6", "0", "0"]
    assert "expected an object" in page.locator("section.nodes tbody tr").nth(2).inner_text()


def test_findings_of_all_nodes_are_grouped_by_cause(fleet):
    causes = fleet().locator(".causes > li")

    heads = causes.locator(".what").all_inner_texts()
    assert heads == [
        "memory.high at the level container deviates: 8 pods on 2 nodes",
        "memory.high at the level container deviates: 1 pod on 1 node",
        "memory.low at the level qos deviates: 1 node",
    ]
    examples = causes.first.locator("ul li").all_inner_texts()
    assert examples[0].startswith("node-1: container c0 of pod default/pod-0 has max, expected ")
    assert examples[-1] == "and 5 more"


@pytest.mark.parametrize(
    ("label", "nodes"),
    [("DRIFTED (2)", ORDER[:2]), ("NOT JUDGED (1)", ORDER[2:3]), ("INSUFFICIENT EVIDENCE (1)", ORDER[3:4]),
     ("FULFILLED (2)", ORDER[4:])],
)  # fmt: skip
def test_a_state_filters_the_nodes(fleet, label, nodes):
    page = fleet()

    page.get_by_label(label).check()
    assert shown_nodes(page) == nodes
    page.get_by_label("All", exact=True).check()
    assert shown_nodes(page) == ORDER


def test_a_node_leads_to_its_deviations(fleet):
    page = fleet()
    rows = page.locator("table.findings").nth(1).locator("tbody tr")
    assert not rows.first.is_visible()

    page.get_by_role("link", name="node-2").click()

    rows.first.wait_for()
    assert rows.count() == 6
    assert rows.filter(has_text="memory.low").locator(".differs").inner_text() == "4096"
    top = page.locator("summary", has_text="node-2").bounding_box()["y"]
    assert top >= page.locator("header").bounding_box()["height"]


def test_it_can_be_used_with_the_keyboard_alone(fleet):
    page = fleet()

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.get_by_label("All", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert shown_nodes(page) == ORDER[:2]
    page.keyboard.press("ArrowRight")
    assert shown_nodes(page) == ORDER[2:3]
    summary = page.locator("summary", has_text="node-1")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("table.findings").first.locator("tbody tr").first.is_visible()


def test_its_headings_fields_and_tables_have_names(fleet):
    page = fleet()

    for part in ("Causes", "Nodes", "Deviations"):
        page.get_by_role("navigation").get_by_role("link", name=part).click()
        assert page.locator(f"[id={part.lower()}]").is_visible()
    unnamed = "[...document.querySelectorAll('input')].filter((one) => !one.labels.length).length"
    assert page.evaluate(unnamed) == 0
    assert page.locator("table").count() == page.locator("table thead").count()


def test_it_has_no_script(fleet):
    page = fleet()

    assert page.locator("script").count() == 0
    assert page.evaluate("document.styleSheets.length") == 2


def test_tables_scroll_within_a_phone(fleet):
    page = fleet(viewport={"width": 400, "height": 800})

    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_colours_follow_the_system(fleet):
    colour = "getComputedStyle(document.body).backgroundColor"

    assert fleet(color_scheme="dark").evaluate(colour) != fleet(color_scheme="light").evaluate(colour)


def test_names_of_a_node_are_text(opened, audited, tmp_path):
    """A recording's own names become neither elements nor requests."""
    evil = "<img src=http://example.invalid/x onerror=alert(1)><script>alert(2)</script>"
    write_fleet(tmp_path, nodes=2, pods=2, different=2)
    for recording in sorted(tmp_path.glob("*.json")):
        document = json.loads(recording.read_text())
        _without_high_and_low(document)
        document["source"] = evil
        recording.write_text(json.dumps(document))
    file = tmp_path / "evil.html"
    assert run(["audit", str(tmp_path), "--jobs", "1", "--html", str(file)]) == 1

    page = opened(file=file, ready="footer")

    assert evil in page.locator("section.nodes tbody").inner_text()
    assert page.locator("img").count() == 0
