"""What a person does with a report, in a browser: look, filter, unfold, go by keyboard, change colours, print."""

import csv
import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest

from memqos.bundles.reading import read_results
from memqos.engine.answer.finding import Subject
from memqos.page.building import page_html
from memqos.report.bundle import Results
from memqos.report.outcome import Outcome
from tests.recorded import copied
from tests.unit.report.sample import BUNDLE

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def made_of(*results, folder):
    """The report of a run with these results."""
    file = folder / "made.html"
    file.write_text(page_html(Results(folder=folder, bundle=dataclasses.replace(BUNDLE, results=results))))
    return file


def case_of(page, words):
    return page.locator("#cases-table tbody tr", has_text=words).get_by_role("link")


def test_it_opens_with_the_verdict_and_all_cases(opened):
    page = opened()

    assert page.get_by_role("heading", level=1).inner_text() == "deviates"
    assert page.locator("#cases-table tbody tr").count() == 4
    assert page.locator("#cases-table tbody tr").first.inner_text().startswith("deviates")
    assert page.locator("#shown").inner_text() == "4 of 4 cases"


def test_filters_choose_by_outcome_chapter_file_and_words(opened):
    page = opened()
    rows = page.locator("#cases-table tbody tr")

    page.get_by_label("deviates (1)").uncheck()
    assert rows.count() == 3
    page.locator("#by-chapter").select_option("throttling")
    assert rows.count() == 1
    assert page.locator("#matrix-table tbody tr:not(.chapter)").count() == 1
    page.get_by_role("button", name="Show all").click()
    rows.nth(3).wait_for()
    page.locator("#by-knob").select_option("cpuset.mems")
    assert 0 < rows.count() < 4
    page.get_by_role("button", name="Show all").click()
    page.locator("#by-words").fill("crossing nowhere")
    assert rows.count() == 0
    page.locator("#by-words").fill("CROSSING")
    assert rows.count() == 1


def test_a_count_of_the_overview_leads_to_its_cases(opened):
    page = opened()
    rows = page.locator("#cases-table tbody tr")
    page.locator("#by-words").fill("nowhere")

    page.locator(".keys").get_by_role("link", name="1 deviates").click()

    rows.first.wait_for()
    assert rows.count() == 1
    assert rows.first.inner_text().startswith("deviates")
    assert page.evaluate("location.hash") == "#cases"


def test_a_long_reason_is_cut_where_a_word_ends_and_says_so(opened, tmp_path):
    long = dataclasses.replace(BUNDLE.results[0], outcome=Outcome.DEVIATES, reason="expected " * 60)

    said = opened(file=made_of(long, folder=tmp_path)).locator("#cases-table .why").inner_text()

    assert said.endswith("expected …")
    assert len(said) < 410


def test_tables_of_counts_are_whole_on_a_phone(opened, tmp_path):
    """Their last columns were cut off, and nothing said so."""
    results = (
        dataclasses.replace(BUNDLE.results[0], id=f"case-{outcome.value}", chapter="throttling", outcome=outcome)
        for outcome in (Outcome.CONFORMS, Outcome.DEVIATES, Outcome.KNOWN, Outcome.NOT_OBSERVABLE)
    )
    page = opened(file=made_of(*results, folder=tmp_path), viewport={"width": 400, "height": 800})

    over = "[...document.querySelectorAll('.numbers')].map((one) => one.scrollWidth - one.parentElement.clientWidth)"
    assert max(page.evaluate(over)) <= 0


def test_a_cell_leads_to_its_case_and_back(opened):
    page = opened()

    page.locator("#matrix-table").get_by_role("link", name="deviates").click()
    page.wait_for_selector("body[data-view=case]")

    assert "crossing_memory_high" in page.locator("#case-title").inner_text()
    assert "A container that uses more than memory.high is slowed down" in page.locator("#case").inner_text()
    assert not page.locator("#overview").is_visible()
    assert page.evaluate("document.activeElement.id") == "case-title"
    page.get_by_role("link", name="Back to the cases").click()
    page.wait_for_selector("body:not([data-view])")
    assert page.locator("#overview").is_visible()


def test_a_deviation_shows_why_and_the_others_on_demand(opened):
    page = opened()
    case_of(page, "crossing").click()
    page.wait_for_selector("body[data-view=case]")
    rows = page.locator(".findings tbody tr")

    assert "62074880 (59.2 MiB)" in rows.first.inner_text()
    assert rows.first.locator(".differs").inner_text() == "max"
    why = rows.nth(1).inner_text()
    assert "memoryThrottlingFactor" in why
    assert "rounding" in why
    good = page.locator("details", has=page.get_by_text("that conform", exact=False)).first
    assert not good.locator("table").is_visible()
    good.locator("summary").first.click()
    another = good.locator(".reasoned").first
    assert not another.locator(".reason").first.is_visible()
    another.locator("summary").click()
    assert another.locator(".reason").first.is_visible()


def test_one_case_that_went_wrong_leads_to_the_next(opened, tmp_path):
    wrong = [dataclasses.replace(one, outcome=Outcome.DEVIATES, id=f"case-{number}") for number, one in
             enumerate([*BUNDLE.results] * 3) if number in (0, 1, 4)]  # fmt: skip
    page = opened("#case-1", file=made_of(*wrong, folder=tmp_path))

    assert "2 of 3 failed cases" in page.locator("#case").inner_text()
    page.get_by_role("link", name="Next").click()
    page.wait_for_selector("#case-title:has-text('case-4')")
    assert page.get_by_role("link", name="Next").count() == 0
    page.get_by_role("link", name="Previous").click()
    page.wait_for_selector("#case-title:has-text('case-1')")


def test_a_system_of_one_release_has_one_column(opened, tmp_path):
    of = {"profile": "trixie", "runtime": "containerd+runc", "driver": "systemd", "outcome": Outcome.CONFORMS}
    cases = [dataclasses.replace(BUNDLE.results[0], id=id_, claim=claim, **of) for id_, claim in
             (("a[v1.36-x]", "one"), ("b", "two"))]  # fmt: skip
    file = tmp_path / "one.html"
    file.write_text(page_html(Results(folder=tmp_path, bundle=dataclasses.replace(BUNDLE, results=tuple(cases)))))

    page = opened(file=file)

    assert page.locator("#matrix-table thead th").all_inner_texts() == ["claim", "trixie containerd+runc"]
    page.locator("#by-column").select_option("trixie containerd+runc")
    assert page.locator("#cases-table tbody tr").count() == 2


def test_a_case_has_its_tree_requests_and_files(opened):
    page = opened()
    case_of(page, "crossing").click()
    page.wait_for_selector("body[data-view=case]")

    differing = page.locator(".tree td.differs")
    assert differing.inner_text() == "max"
    page.locator("summary", has_text="CreateContainer").first.click()
    assert page.locator("details[open] pre", has_text="linux").first.is_visible()
    assert "series.jsonl" in page.locator("#case").inner_text()


def charted(opened, words="crossing", **options):
    page = opened(**options)
    case_of(page, words).click()
    page.wait_for_selector("body[data-view=case]")
    page.wait_for_selector("figure canvas")
    return page.locator("figure.chart").first


def has_ink(chart):
    """Whether something is drawn on each canvas."""
    return chart.evaluate(
        """(figure) => [...figure.querySelectorAll("canvas")].every((one) => {
            const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
            return data.some((value) => value > 0);
        })"""
    )


def test_a_watched_case_has_charts_of_usage_limits_and_pressure(opened):
    chart = charted(opened)

    assert chart.get_by_role("heading").inner_text() == "container app of pod default/over-limit"
    assert has_ink(chart)
    labels = [chart.locator(".u-over").nth(number).get_attribute("aria-label") for number in range(2)]
    assert labels[0].startswith("memory over ")
    assert "memory.high at most 59.2 MiB" in labels[0]
    assert labels[1].startswith("pressure (share of the half second before) over ")
    chart.locator("summary", has_text="events").click()
    assert "high +" in chart.locator("details ul").inner_text()


def test_numa_is_shown_by_numa_node(opened):
    page = charted(opened, "numa").page

    names = [one.get_attribute("aria-label") for one in page.locator(".u-over").all()]
    zones = next(name for name in names if name.startswith("memory by NUMA node"))
    assert "anon N1 at most" in zones


def test_what_was_read_again_is_shown_in_pages(opened, tmp_path):
    folder = copied(tmp_path / "results")
    for file in folder.glob("tests/*crossing*/series.jsonl"):
        file.write_text(file.read_text().replace("workingset_refault_file 0", "workingset_refault_file 7"))
    report = tmp_path / "report.html"
    report.write_text(page_html(read_results(folder)), encoding="utf-8")
    chart = charted(opened, file=report)

    labels = [one.get_attribute("aria-label") for one in chart.locator(".u-over").all()]
    assert labels[1].startswith("refaults (pages read again after reclaim) over ")
    assert "refault file at most 7 pages" in labels[1]
    with chart.page.expect_download(predicate=lambda one: one.suggested_filename.endswith("-1.csv")) as download:
        chart.get_by_role("button", name="CSV").click()
    assert download.value.path().read_text().splitlines()[0] == "seconds,refault file (pages),event"


def test_values_are_read_with_mouse_and_keyboard(opened):
    chart = charted(opened)
    over = chart.locator(".u-over").first

    over.hover(position={"x": 300, "y": 50})
    assert "memory.current" in chart.locator(".said").inner_text()
    over.focus()
    chart.page.keyboard.press("Home")
    first = chart.locator(".said").inner_text()
    chart.page.keyboard.press("End")
    last = chart.locator(".said").inner_text()
    assert first != last
    assert "memory.high 59.2 MiB" in last


def test_a_chart_is_zoomed_and_shown_whole_again(opened):
    chart = charted(opened)
    image = "document.querySelector('figure.chart canvas').toDataURL()"
    whole = chart.page.evaluate(image)

    chart.get_by_role("button", name="Zoom in").click()
    chart.page.wait_for_timeout(200)
    zoomed = chart.page.evaluate(image)
    chart.get_by_role("button", name="Whole series").click()
    chart.page.wait_for_timeout(200)

    assert zoomed != whole
    assert chart.page.evaluate(image) == whole


def test_another_course_is_laid_over(opened):
    chart = charted(opened)

    chart.locator("select").select_option(label="test_without_memory_high_nothing_is_throttled[v1.37-default]")
    chart.locator(".u-over[aria-label*=nothing_is_throttled]").wait_for(state="attached")
    assert has_ink(chart)


def test_numbers_and_drawing_are_taken_along(opened):
    chart = charted(opened)
    page = chart.page

    with page.expect_download() as drawing:
        chart.get_by_role("button", name="SVG").click()
    root = ET.parse(drawing.value.path()).getroot()  # noqa: S314 - it is our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) >= 4
    with page.expect_download() as numbers:
        chart.get_by_role("button", name="CSV").click()
    rows = list(csv.reader(numbers.value.path().read_text().splitlines()))
    assert rows[0][0] == "seconds"
    assert "memory.high (bytes)" in rows[0]
    assert rows[-1][rows[0].index("memory.high (bytes)")] == "62074880"
    assert any("high +" in row[-1] for row in rows[1:])


def test_many_events_do_not_hide_the_course(opened, tmp_path):
    own = "tests/busy"
    (tmp_path / own).mkdir(parents=True)
    looks = [
        {"at": at / 10, "folder": "/busy", "why": "event", "files": {
            "memory.current": str(at << 20), "memory.events": f"high {at}\noom_kill {int(at > 298)}\n"}}
        for at in range(300)
    ]  # fmt: skip
    (tmp_path / own / "series.jsonl").write_text("".join(f"{json.dumps(look)}\n" for look in looks))
    busy = dataclasses.replace(BUNDLE.results[0], folder=own)
    file = tmp_path / "busy.html"
    file.write_text(page_html(Results(folder=tmp_path, bundle=dataclasses.replace(BUNDLE, results=(busy,)))))

    page = opened("#case-0", file=file)
    with page.expect_download() as drawing:
        page.get_by_role("button", name="SVG").click()

    lines = ET.parse(drawing.value.path()).getroot().findall("{http://www.w3.org/2000/svg}line")  # noqa: S314 - our own
    assert len([line for line in lines if line.get("class") == "event"]) <= 11
    assert len([line for line in lines if line.get("class") == "tick"]) > 280
    assert "events (300)" in page.locator("figure").inner_text()


def test_charts_follow_the_colours(opened):
    chart = charted(opened)
    image = "document.querySelector('figure.chart canvas').toDataURL()"
    light = chart.page.evaluate(image)

    chart.page.get_by_role("button", name="Use dark colours").click()

    assert chart.page.evaluate(image) != light


def test_it_can_be_used_with_the_keyboard_alone(opened):
    page = opened()

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    case_of(page, "crossing").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-view=case]")
    good = page.locator("#case summary", has_text="that conform")
    good.focus()
    page.keyboard.press("Enter")
    assert good.locator("..").get_attribute("open") is not None


def test_what_is_shown_has_a_name_for_screen_readers(opened):
    page = opened()

    nameless = page.evaluate(
        """[...document.querySelectorAll("a, button, input, select, section, [role=region], table")].filter((one) =>
            one.offsetParent && !(one.textContent.trim() || one.labels?.length || one.getAttribute("aria-label")
            || one.getAttribute("aria-labelledby"))).map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("th:not([scope])").count() == 0


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_both_colours_can_be_read_and_chosen(opened, scheme, other):
    page = opened(color_scheme=scheme)
    brightness = "getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)"
    back, ink = (page.evaluate(brightness.format(name)) for name in ("backgroundColor", "color"))

    assert (back > 600) == (scheme == "light")
    assert abs(back - ink) > 450
    page.get_by_role("button", name=f"Use {other} colours").click()
    assert (page.evaluate(brightness.format("backgroundColor")) > 600) == (other == "light")


@pytest.mark.parametrize("fragment", ["", "#case-0"])
def test_on_a_phone_nothing_is_wider_than_the_screen(opened, fragment):
    page = opened(fragment, viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)

    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_it_prints(opened):
    page = opened()
    page.emulate_media(media="print")

    assert not page.locator("nav").is_visible()
    assert not page.locator("#filters").is_visible()
    assert page.locator("#matrix-table").is_visible()
    assert len(page.pdf()) > 20_000


def test_without_scripts_it_says_what_cannot_be_shown(opened, report, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())

    assert page.get_by_role("heading", level=1).inner_text() == "deviates"
    assert not page.locator("#matrix").is_visible()
    assert "need JavaScript" in page.locator("main").inner_text()
    context.close()


def test_an_address_that_leads_nowhere_shows_the_overview(opened):
    for fragment in ("#case-99", "#nowhere", "#case-x", "#%3Cscript%3E"):
        assert opened(fragment).locator("#overview").is_visible(), fragment


def test_what_a_guest_said_is_shown_and_never_run(opened, tmp_path):
    changed = {
        "id": EVIL,
        "claim": EVIL,
        "chapter": EVIL,
        "reason": EVIL,
        "text": EVIL,
        "machine": EVIL,
        "folder": "tests/evil",
    }
    said = dict.fromkeys(("cgroup", "knob", "expected", "observed"), EVIL)
    findings = [
        dataclasses.replace(one, **said, subject=Subject.of_pod(EVIL, EVIL), evidence={EVIL: EVIL})
        for one in BUNDLE.results[1].findings
    ]
    evil = [dataclasses.replace(one, **changed, findings=tuple(findings)) for one in BUNDLE.results]
    folder = tmp_path / "tests" / "evil"
    folder.mkdir(parents=True)
    for name in ("dmesg.txt", "<img src=x onerror=alert(3)>.log", "manifest.yaml"):
        (folder / name).write_text(EVIL)
    (folder / "requests.jsonl").write_text(
        json.dumps({"method": EVIL, "seconds": EVIL, "request": {EVIL: EVIL}, "error": EVIL})
    )
    looks = [
        {
            "at": at,
            "folder": EVIL,
            "why": EVIL,
            "files": {"memory.current": str(at), "memory.numa_stat": f"anon N0={at} {EVIL}=1"},
        }
        for at in range(9)
    ]
    (folder / "series.jsonl").write_text("".join(f"{json.dumps(look)}\n" for look in looks))
    bundle = dataclasses.replace(BUNDLE, results=tuple(evil), claims={EVIL: {"sentence": EVIL, "source": EVIL}})
    file = tmp_path / "evil.html"
    file.write_text(page_html(Results(folder=tmp_path, bundle=bundle, missing=(EVIL,))), encoding="utf-8")

    page = opened(file=file)
    assert page.locator("#cases-table tbody tr").count() == len(Outcome)
    case_of(page, "deviates").first.click()
    page.wait_for_selector("body[data-view=case]")
    for summary in page.locator("#case summary").all():
        summary.click()

    assert page.locator("img").count() == 0
    assert EVIL in page.locator("#case").inner_text()
