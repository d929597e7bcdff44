import re
from pathlib import Path

from memqos.engine.releases.errata import ERRATA, errata_document, errata_text
from memqos.engine.releases.release import Release, Variant, revisions

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errata.md"


def test_the_page_shows_the_same_errata():
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    fields = ("Releases", "In", "Says", "Holds")
    shown = [
        (
            section.splitlines()[0],
            *(re.search(rf"^- {field}: (.*)$", section, re.MULTILINE)[1] for field in fields),
        )
        for section in sections
    ]
    assert shown == [(one.id, one.releases, one.source, one.says, one.holds) for one in ERRATA]
    assert [("--as documented" in section) for section in sections] == [one.variant for one in ERRATA]


def test_ids_are_names_and_releases_exist():
    assert len({one.id for one in ERRATA}) == len(ERRATA) == 16
    for one in ERRATA:
        assert 22 <= one.first <= one.last <= 37
    assert {one.releases for one in ERRATA} >= {"1.37", "1.27 to 1.36"}


def test_an_erratum_with_a_variant_is_in_releases_with_two():
    for erratum in ERRATA:
        for minor in range(erratum.first, erratum.last + 1) if erratum.variant else ():
            sides = [revisions(Release(minor), variant) for variant in Variant]
            assert sides[0] != sides[1]


def test_text_and_document_hold_all_of_them():
    text = errata_text()
    document = errata_document()
    for one, data in zip(ERRATA, document["errata"], strict=True):
        assert f"{one.id} ({one.releases})\n  in    {one.source}\n  says  {one.says}\n  holds {one.holds}" in text
        assert (data["id"], data["says"], data["holds"]) == (one.id, one.says, one.holds)
    [best_effort] = [one for one in document["errata"] if one["id"] == "best-effort-high"]
    assert (best_effort["releases"][0], best_effort["releases"][-1], best_effort["variant"]) == ("1.27", "1.36", True)
