"""The documentation's output of a real machine is what a machine prints."""

import pytest

from tests.docs.snippets import pages, snippets
from tests.docs.test_documentation import play

pytestmark = pytest.mark.vm

PAGES = [page for page in pages() if any(snippet.flag == "vm" for snippet in snippets(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_real_output_of_a_machine(page, tmp_path):
    assert play(page, tmp_path, flag="vm") > 0


def test_some_page_shows_a_machine():
    assert PAGES
