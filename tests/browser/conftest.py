"""Reports and fleets in a real browser: Debian's Chromium, without a window, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memqos.bundles.reading import read_results
from memqos.page.building import page_html
from tests.recorded import copied, deviating

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser that is not there is an error with its remedy, and never a skip: who asks for this wants it tried."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("there is no Chromium: apt install --no-install-recommends chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - its own environment alone has it

    with sync_playwright() as playwright:
        # Its sandbox needs rights that a container does not have, and nothing but our own file is opened.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the recorded results, in which one case was made to deviate."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "report.html"
    file.write_text(page_html(read_results(copied(folder / "results", change=deviating))), encoding="utf-8")
    return file


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    """Opens a report; afterwards, whatever the test did, nothing was complained of and nothing asked for outside."""
    contexts, trouble = [], []

    def call(fragment: str = "", *, file: Path = report, ready: str = "html[data-ready=yes]", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: trouble.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda one: one.url.startswith(("file:", "blob:")) or trouble.append(one.url))
        page.on("dialog", lambda one: (trouble.append(f"dialog: {one.message}"), one.dismiss()))
        page.goto(f"{file.as_uri()}{fragment}")
        page.wait_for_selector(ready)
        return page

    yield call
    for context in contexts:
        context.close()
    assert trouble == []
