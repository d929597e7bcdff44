"""Any value in a field of a damaged or foreign bundle: it is read, omitted, or rejected in a sentence."""

import copy
import json
from collections.abc import Iterator

import pytest

from memqos.bundles.comparing import compare, comparison_lines
from memqos.bundles.reading import read_results
from memqos.errors import UsageError
from memqos.page.building import case_document, columns_of, findings_document, index_document, overview, page_html
from memqos.report.ci_results import junit_xml
from memqos.report.markdown import badge_json, markdown
from memqos.report.summary import summary_lines
from tests.recorded import TRIXIE
from tests.unit.page.reading import Page

ODD = [None, -1, "\ud800\x00", [1], {"a": 1}, float("nan"), 10**30]


def places(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Every place in a document; for a list the first entry represents all."""
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def put(document: dict, path: tuple[object, ...], value: object) -> object:
    if not path:
        return value
    changed = copy.deepcopy(document)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return changed


def small() -> dict:
    """A bundle with one case with one deviating finding, and few facts of its machine."""
    bundle = json.loads((TRIXIE / "bundle.json").read_text())
    case = next(one for one in bundle["results"] if "crossing" in one["id"])
    finding = next(one for one in case["findings"] if one["expected"] == "62074880")
    hop = {"hop": "config.json", "asked": ["unified memory.high = 1"], "held": "max", "why_not": ""}
    finding |= {"verdict": "deviates", "evidence": {"a": "b"}, "lost": {"by": "runc", "told": "t", "hops": [hop]}}
    machine = {name: bundle["machines"][0][name] for name in ("id", "profile", "kernel", "runtimes", "versions")}
    timing = {"create": {"count": 1, "median": 0.1, "longest": 0.2}}
    part = {
        "name": "a",
        "started": "",
        "ended": "",
        "exit_code": 0,
        "cases": 1,
        "versions": {},
        "host": {},
        "settings": {},
    }
    given = {"kubernetes": ["1.37"], "profile": ["trixie"], "keep_vm": False, "results": "out"}
    settings = {name: {"value": value, "origin": "--x"} for name, value in given.items()}
    return bundle | {
        "results": [{**case, "outcome": "deviates", "findings": [finding]}],
        "machines": [{**machine, "timing": timing, "kept": {"name": "m"}}],
        "settings": settings,
        "claims": {case["claim"]: {"sentence": "s", "source": "s", "kind": "state", "about": "runtime"}},
        "merged": {"parts": [part], "doubles": ["d"], "contradictions": ["c"]},
        "known_gone": ["k"],
        "shard": {"number": 1, "of": 2, "cases": 3, "division": "a"},
    }


WHOLE = small()
PLACES = list(places(WHOLE))


def everything_made_of(folder):
    results = read_results(folder)
    bundle = results.bundle
    list(summary_lines(bundle, results_folder="out"))
    junit_xml(bundle)
    markdown(bundle)
    badge_json(bundle)
    list(comparison_lines(compare(bundle, bundle)))
    json.dumps(bundle.to_json(), allow_nan=False)
    overview(results)
    cases = [case_document(one, list(columns_of(bundle.results)), name=one.id, again="") for one in bundle.results]
    json.dumps([index_document(bundle, cases), findings_document(bundle.results)], allow_nan=False)


def test_the_small_bundle_is_complete(tmp_path):
    (tmp_path / "bundle.json").write_text(json.dumps(WHOLE))

    everything_made_of(tmp_path)
    Page(page_html(read_results(tmp_path))).data("index")
    assert len(PLACES) > 100
    assert read_results(tmp_path).missing == (
        "findings.jsonl is missing.",
        "findings.jsonl has 0 of the 1 cases of bundle.json.",
    )


@pytest.mark.parametrize("odd", ODD, ids=lambda value: ascii(value)[:20])
def test_any_value_at_any_place_of_the_bundle(tmp_path, odd):
    for path in PLACES:
        (tmp_path / "bundle.json").write_text(json.dumps(put(WHOLE, path, odd)))
        try:
            everything_made_of(tmp_path)
        except UsageError as error:
            assert path == ("schema",), (path, error)  # noqa: PT017 - which one it is depends on the place
        except Exception as error:
            raise AssertionError(path) from error


def test_numbers_that_are_none_in_json_do_not_reach_the_page(tmp_path):
    case = WHOLE["results"][0]
    (tmp_path / "findings.jsonl").write_text(json.dumps({**case, "seconds": float("nan"), "folder": "tests/x"}) + "\n")
    (tmp_path / "tests" / "x").mkdir(parents=True)
    (tmp_path / "tests" / "x" / "requests.jsonl").write_text('{"method": "a", "seconds": Infinity}\n{"method": "b"}\n')
    (tmp_path / "tests" / "x" / "series.jsonl").write_text('{"at": NaN, "folder": "f", "files": {}}\n')

    page = page_html(read_results(tmp_path))

    for name in ("index", *(["evidence-0"] if "blob-evidence-0" in page else [])):
        json.dumps(Page(page).data(name), allow_nan=False)
