import io
import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memqos.catalog import yaml_nodes
from memqos.catalog.json_nodes import read_objects
from memqos.catalog.yaml_nodes import MAX_BYTES, Item, MappingNode, SequenceNode, parse_objects
from memqos.errors import ManifestError


def plain(node):
    """A node with its values, spellings and lines."""
    if isinstance(node, MappingNode):
        return node.line, [(entry.key, entry.line, plain(entry.value)) for entry in node.entries]
    if isinstance(node, SequenceNode):
        return node.line, [plain(item) for item in node.items]
    return node.line, type(node.value), node.value, node.text


def outcome(read, text):
    """The parts of a text, or its error; the number of parts before an error depends on the reader's buffer."""
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    try:
        return [
            (part.index, part.kind, plain(part.node)) if isinstance(part, Item) else plain(part)
            for part in read(io.BytesIO(data), "f.json")
        ]
    except ManifestError as error:
        return str(error), error.data


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
    st.sampled_from(["<<", "yes", "1_000", "~", "\u2028", "\x7f", "\ud83d\ude00", "\ufeff", "{{ x }}"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(["a", "<<", "items"])), inner, max_size=4),
    ),
    max_leaves=12,
)
HEADS = st.dictionaries(st.sampled_from(["kind", "apiVersion", "metadata"]), VALUES, max_size=3)
FORMS = st.sampled_from([{}, {"indent": 1}, {"indent": 4}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@settings(max_examples=300, deadline=None)
@given(head=HEADS, items=st.lists(VALUES, max_size=4), tail=HEADS, form=FORMS)
def test_nodes_equal_those_of_the_yaml_reader(head, items, tail, form):
    text = json.dumps({**head, "items": items, **tail}, **form)
    assert outcome(read_objects, text) == outcome(parse_objects, text)


LIST = json.dumps({"kind": "List", "items": [{"a": {"b": [1, 2.5, "x", None, True, {}, []]}}] * 3}, indent=2)


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(LIST)), cut=st.integers(0, 3), put=st.sampled_from(["", ",", "]", "}", "{", '"', "\n", "x"])
)
@example(at=len(LIST), cut=0, put="x")
def test_damaged_text_has_the_errors_of_the_yaml_reader(at, cut, put):
    text = LIST[:at] + put + LIST[at + cut :]
    assert outcome(read_objects, text) == outcome(parse_objects, text)


def listed(*items, head='"kind": "List", ', tail=""):
    return "{" + head + '"items": [' + ", ".join(items) + "]" + tail + "}"


@pytest.mark.parametrize(
    "text",
    [
        listed('{"a": 1}', '{"a": 1, "a": 2}', '{"b": 1}'),
        listed('{"a": 1}', '{"b": NaN}', '{"c": [Infinity, -Infinity]}'),
        listed('{"a": 12345678901234567890, "b": 1e3, "c": 1E+2, "d": -0, "e": 1e999, "f": 1.0}'),
        listed(f'{{"a": {"9" * 64}, "b": {"9" * 65}, "c": {"9" * 5000}}}'),
        listed('{"a": 0100}', '{"a": 0x10}', '{"a": 1_000}', '{"a": +1}', '{"a": .5}'),
        listed(r'{"a": "\u003c\u00e9\n\t\"\\\/"}', r'{"a": "\ud83d\ude00"}', r'{"b": "\u0000"}'),
        listed(r'{"a": 1}', r'{"\u003c\u003c": {"b": 1}}'),
        listed('{"a": "\x85"}', '{"b": 1}'),
        listed('{"a": "\u2028"}', '{"b": 1}'),
        listed('{"%s": 1}' % ("k" * 1100)),
        listed('{"a": %s}' % ("[" * 61 + "]" * 61)),
        listed('{"a": %s}' % ("[" * 62 + "]" * 62)),
        listed('{"a": %s}' % ("[" * 5000 + "]" * 5000)),
        listed("{'a': 1}", "{b: 2}"),
        listed('{"a": 1},'),
        listed('{"a": 1},,{"b": 1}'),
        listed('{"a": 1} {"b": 1}'),
        listed('{"a": 1}', tail=', "items": [{"b": 2}]'),
        listed('{"a": 1}', tail=', "kind": "PodList"'),
        listed('{"a": 1}', tail=', "metadata": {}') + " garbage",
        listed('{"a": 1}') + "\n" + listed('{"b": 1}') + '\n---\nc: 1\n',
        listed('{"a": 1}', head=""),
        listed('{"a": 1}', head='"kind": 7, "kind": 8, '),
        listed('{"a": 1}', head='"kind": "a\u2028b", '),
        listed('{"a":\n1,\n\n"b": [\n]\n, "c": {"d": 1,\n"e": 2}}', '{"f": 1}'),
        listed('{\n"a": [1, 2],\n\n"b": 1\n}', '{"f": 1}'),
        listed('{\r\n  "a": 1\r\n}', '{"f": 1}'),
        "\n\n  " + listed('{"a": 1}'),
        "\ufeff" + listed('{"a": 1}'),
        '{"items": {"a": 1}}',
        '{"items": null}',
        '[{"a": 1}]',
        '{"kind": "Pod"}\n{"kind": "Pod"}\n',
        listed('{"a": "é"}', '{"a": 1}').encode() + b"\xff",
        listed('{"a": "é"}').encode()[:-4] + b"\xc3",
        b'{"items": [{"a": 1}, {"b": "\xff"}]}',
        b'{"items": [' + b'{"a": "\xc3\xa9"}, ' * 2000 + b'{"b": "\xff"}]}',
        listed(json.dumps({"a": "x" * (MAX_BYTES + 40_000)})),
        listed('{"a": 1}', json.dumps({"a": ["x"] * 201_000}), '{"b": 1}'),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_special_text_equals_that_of_the_yaml_reader(text):
    assert outcome(read_objects, text) == outcome(parse_objects, text)


def test_plain_json_is_not_read_twice(monkeypatch):
    """The YAML reader gets only the head and the end."""
    seen = []
    monkeypatch.setattr(yaml_nodes, "resolved", lambda event: seen.append(event.value) or event.value)
    parts = list(read_objects(io.BytesIO(LIST.encode()), "f.json"))
    assert [part.index for part in parts if isinstance(part, Item)] == [0, 1, 2]
    assert seen == ["List"]


def test_a_long_list_in_many_pieces():
    items = [{"name": f"é{number}", "text": "x" * 3000, "n": [number]} for number in range(1500)]
    text = json.dumps({"kind": "List", "items": items}, indent=4, ensure_ascii=False)
    assert outcome(read_objects, text) == outcome(parse_objects, text)


def test_too_many_documents(monkeypatch):
    monkeypatch.setattr(yaml_nodes, "MAX_OBJECTS", 3)
    assert list(read_objects(io.BytesIO(b"---\n" * 3), "f.yaml")) == []
    with pytest.raises(ManifestError, match="more than 3 objects and documents"):
        list(read_objects(io.BytesIO(b"---\n" * 5), "f.yaml"))


def test_too_many_bytes_in_all(monkeypatch):
    monkeypatch.setattr(yaml_nodes, "MAX_STREAM_BYTES", 1 << 20)
    with pytest.raises(ManifestError, match="GiB in it"):
        list(read_objects(io.BytesIO(b"---\na: 1\n" * 200_000), "f.yaml"))
