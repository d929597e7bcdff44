"""The page of a fleet's audit: what it says of each node, and that nothing of a node becomes markup."""

import base64
import datetime
import hashlib
import re

import pytest

from memqos.page.fleet import fleet_html
from tests.unit.page.reading import Page

EVIL = "<script>alert(1)</script></style><img src=x onerror=alert(2)>\" ' & \x1b[2J \u202e -->"
WHEN = datetime.datetime(2026, 11, 29, 12, 30, tzinfo=datetime.UTC)


def drift(subject="container app of pod default/web", **fields):
    return {
        "verdict": "deviates", "state": "DRIFTED", "subject": subject, "cgroup": "/kubepods.slice/x",
        "knob": "memory.high", "expected": "4096", "observed": "max", "rule": "a rule", "set_by": "the kubelet",
        "hint": "", **fields,
    }  # fmt: skip


def node(name, state="FULFILLED", *, error="", drifts=(), **fields):
    return {
        "place": f"nodes/{name}.json", "node": name, "release": "1.36", "state": state, "exit_code": 0, "error": error,
        "counts": {} if error else {"conforms": 187, "deviates": len(drifts)}, "pods": {} if error else {state: 6},
        "memory_qos": None if error else {"on": True, "force": "in force", "why": "every file holds"},
        "drifts": list(drifts), "not_observable": {}, "notes": {}, **fields,
    }  # fmt: skip


def cause(**fields):
    one = drift()
    kept = {name: one[name] for name in ("verdict", "knob", "rule", "set_by", "hint")}
    examples = [{**one, "node": "b"}]
    return {**kept, "level": "container", "pods": 37, "nodes": 12, "findings": 40, "examples": examples, **fields}


def page(*nodes, causes=()):
    return Page(fleet_html({"nodes": list(nodes), "causes": list(causes)}, when=WHEN))


def words(text):
    return " ".join(text.split())


FLEET = (
    node("a"),
    node("b", "DRIFTED", drifts=[drift(), drift("pod default/web")], notes={"kubelet": "it did not answer"}),
    node("c", "INSUFFICIENT_EVIDENCE", not_observable={"the file is missing": 7}),
    node("d", error="expected an object."),
)


def test_deviating_nodes_come_first_and_each_state_is_counted():
    found = words(page(*FLEET, causes=[cause()]).text)
    assert "DRIFTED 1 DRIFTED 1 NOT JUDGED 1 INSUFFICIENT EVIDENCE 1 FULFILLED MemoryQoS: 3 in force." in found
    assert "memory.high at the level container deviates: 37 pods on 12 nodes a rule Set by the kubelet." in found
    assert "b: container app of pod default/web has max, expected 4096 and 39 more" in found
    assert "b 1.36 DRIFTED in force 6 DRIFTED 187 2 0 0 d 1.36 NOT JUDGED expected an object. c 1.36" in found
    assert "b: 2 deviations, 1 note" in found
    assert "kubelet: it did not answer" in found
    assert "7 values on 1 node: the file is missing" in found
    assert "audit of 4 nodes, 2026-11-29 12:30 UTC" in found


def test_a_fleet_without_deviations_says_so():
    found = words(page(node("a")).text)
    assert "FULFILLED 1 FULFILLED" in found
    assert "No file deviates." in found
    assert "Deviations of each node None." in found


def test_a_link_leads_from_a_node_to_its_deviations():
    found = page(*FLEET)
    targets = {attributes["id"] for _, attributes in found.elements if "id" in attributes}
    links = [attributes["href"] for tag, attributes in found.elements if tag == "a"]
    assert all(link.startswith("#") and link[1:] in targets for link in links)
    assert "#node-1" in links


def test_a_known_deviation_is_marked_in_its_cause_and_its_row():
    found = page(
        node("a", "DRIFTED", drifts=[drift(verdict="known", hint="a bug")]),
        causes=[cause(verdict="known", hint="a bug")],
    )
    assert "deviates as known" in words(found.text)
    assert "container app of pod default/web (known)" in words(found.text)
    assert "Possible cause: a bug" in words(found.text)


@pytest.mark.parametrize(("count", "more"), [(40, ""), (43, "And 3 more: memqos audit nodes/a.json")])
def test_of_many_deviations_the_first_are_listed(count, more):
    found = page(node("a", "DRIFTED", drifts=[drift(f"pod default/p{number}.") for number in range(count)]))
    assert len(set(re.findall(r"pod default/p\d+\.", found.text))) == 40
    assert more in words(found.text)
    assert ("more: memqos" in found.text) == bool(more)


def test_nothing_of_a_node_becomes_markup_or_reaches_a_terminal():
    evil = node(
        EVIL, "DRIFTED", drifts=[drift(EVIL, observed=EVIL, rule=EVIL, hint=EVIL, cgroup=EVIL)], notes={EVIL: EVIL}
    )
    bad = node(EVIL, error=EVIL, not_observable={EVIL: 1})
    found = page(evil, bad, causes=[cause(rule=EVIL, hint=EVIL, examples=[{**drift(EVIL), "node": EVIL}])])
    assert not {tag for tag, _ in found.elements} & {"script", "img", "link", "iframe", "object", "base"}
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "\x1b" not in found.text
    assert "\\x1b[2J" in found.text


def test_its_policy_allows_its_own_styles_alone():
    found = page(node("a"))
    [policy] = [one["content"] for tag, one in found.elements if one.get("http-equiv") == "Content-Security-Policy"]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for _, text in found.scripts}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert len(digests) == 2
