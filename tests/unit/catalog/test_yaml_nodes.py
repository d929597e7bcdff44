import math

import pytest

from memqos.catalog.yaml_nodes import MAX_BYTES, MappingNode, ScalarNode, SequenceNode, parse_documents
from memqos.errors import ManifestError


def parse(text):
    return parse_documents(text.encode() if isinstance(text, str) else text, "f.yaml")


def plain(node):
    match node:
        case MappingNode():
            return {entry.key: plain(entry.value) for entry in node.entries}
        case SequenceNode():
            return [plain(item) for item in node.items]
        case ScalarNode():
            return node.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ('{"a": [1, 2.5, "x", null, true], "b": {}}', {"a": [1, 2.5, "x", None, True], "b": {}}),
        ('{\n\t"a": 1\n}', {"a": 1}),
        ("a: 0100", {"a": 64}),
        ("a: 0o17", {"a": 15}),
        ("a: 0x10", {"a": 16}),
        ("a: 1_000", {"a": 1000}),
        ("a: -7", {"a": -7}),
        ("a: -017", {"a": -15}),
        ("a: 089", {"a": 89.0}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: .5", {"a": 0.5}),
        ("a: on\nb: off\nc: Yes\nd: 'on'\ne: \"1\"", {"a": True, "b": False, "c": True, "d": "on", "e": "1"}),
        ("a: ~\nb:\nc: null\nd: None", {"a": None, "b": None, "c": None, "d": "None"}),
        ("a: 64Mi\nb: 1.2.3\nc:\n-", {"a": "64Mi", "b": "1.2.3", "c": [None]}),
        ("a: n\nb: Y", {"a": False, "b": True}),
        ("a: !!str 1", {"a": "1"}),
        ("a: &x {m: 1}\nb: *x", {"a": {"m": 1}, "b": {"m": 1}}),
        ("a: &x 7\nb: [*x, *x]", {"a": 7, "b": [7, 7]}),
        ("a: &x {m: 1, n: 2}\nb:\n  <<: *x\n  m: 3", {"a": {"m": 1, "n": 2}, "b": {"m": 3, "n": 2}}),
        ("a: {<<: [{m: 1}, {m: 2, n: 3}]}", {"a": {"m": 1, "n": 3}}),
        ("\ufeffa: 1", {"a": 1}),
        ("1: a", {"1": "a"}),
        (f"a: {'9' * 80}", {"a": "9" * 80}),
        ("a: |\n  two\n  lines", {"a": "two\nlines"}),
        ("a: 1_000Mi\nb: 1__0\nc: 0x_1F\nd: _1\ne: +1_0", {"a": "1_000Mi", "b": 10, "c": 31, "d": "_1", "e": 10}),
        ("a: 1_000.5\nb: ._5\nc: 1_e3", {"a": 1000.5, "b": "._5", "c": 1000.0}),
        (
            "a: 1:30\nb: 190:20:30\nc: 2001-12-14\nd: 1:30.5",
            {"a": "1:30", "b": "190:20:30", "c": "2001-12-14", "d": "1:30.5"},
        ),
        ("a: 1e999\nb: '.inf'\nc: .infinity", {"a": "1e999", "b": ".inf", "c": ".infinity"}),
        ("a: .inf\nb: -.Inf\nc: +.INF", {"a": math.inf, "b": math.inf, "c": math.inf}),
        ("a: +1\nb: -0\nc: 0b11\nd: +0x1f\ne: 08\nf: 1.", {"a": 1, "b": 0, "c": 3, "d": 31, "e": 8.0, "f": 1.0}),
    ],
)
def test_values(text, value):
    (document,) = parse(text)
    assert plain(document) == value


@pytest.mark.parametrize("written", [".nan", ".NaN", ".NAN"])
def test_a_malformed_number_is_not_text(written):
    (document,) = parse(f"a: {written}")
    assert math.isnan(plain(document)["a"])


def test_several_documents_without_the_empty_ones():
    assert [plain(one) for one in parse("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n")] == [{"a": 1}, {"b": 2}]
    assert parse("") == parse("# nothing\n") == ()


def test_lines():
    (document,) = parse("a: 1\nb:\n  c:\n  - x\n  - y\n")
    assert document.line_of("a") == 1
    assert document.line_of("b") == 2
    assert document.line_of("nowhere") == document.line == 1
    assert document.get("b").get("c").items[1].line == 5
    assert document.get("nowhere") is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (b"a: \xff", 1, "not UTF-8"),
        (b"a: 1\nb: \xc3(", 2, "not UTF-8"),
        ("a: 1\na: 2", 2, "is a duplicate of line 1"),
        ("a:\n\tb: 1", 2, "Indent with spaces"),
        ("a: [1", 2, "not YAML"),
        ("%%%", 1, "not YAML"),
        ("a: \x01", 0, "not YAML"),
        ("a: *x", 1, "no anchor"),
        ("a: &x [*x]", 1, "no anchor"),
        ("[a, b]: 1", 1, "a key must be a word"),
        ("? {a: 1}\n: 1", 1, "a key must be a word"),
        ("a: {<<: 1}", 1, "merges mappings only"),
        ("a: &x [1]\n*x : 2", 2, "a key must be a word"),
        ("[" * 100_000, 1, "deeper than 64"),
        ("{a: " * 100_000, 1, "deeper than 64"),
        ("- " * 100_000, 1, "deeper than 64"),
        ("\n".join(" " * depth + "a:" for depth in range(500)), 65, "deeper than 64"),
    ],
)
def test_bad_text_is_one_error_with_its_line(text, line, says):
    with pytest.raises(ManifestError, match=says) as caught:
        parse(text)
    assert caught.value.data["line"] == line
    assert caught.value.data["file"] == "f.yaml"


def test_too_many_bytes():
    with pytest.raises(ManifestError, match="no API server accepts"):
        parse(b"[" * 10_000_000)
    assert parse(b"#" * MAX_BYTES) == ()


def test_aliases_of_aliases():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefghi", "bcdefghij", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    with pytest.raises(ManifestError, match="expands to more than"):
        parse("\n".join(lines))
