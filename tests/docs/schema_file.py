"""memqos.schema.json and docs/reference/json-fields.md, made of the types in memqos.report.documents.

`python -m tests.docs.schema_file` writes both anew.
"""

import ast
import inspect
import json
import re
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

from memqos.catalog import topologies
from memqos.report.documents import answers, audit, bundle, evidence, exploration, plan
from tests.docs.snippets import DOCS

FILE = DOCS / "reference" / "memqos.schema.json"
PAGE = DOCS / "reference" / "json-fields.md"

HEAD = """# JSON fields

The fields of every [JSON document](json.md), as in [memqos.schema.json](memqos.schema.json). The documents come \
first, then the objects in them. A field that is not marked *always* may be missing.
"""

DOCUMENTS: dict[str, type] = {
    "plan": plan.Plan,
    "differences": answers.Differences,
    "errata": answers.Errata,
    "analysis": answers.Analysis,
    "mutants": answers.Mutants,
    "resizes": answers.Resizes,
    "audit": audit.Audit,
    "fleet": audit.Fleet,
    "what_if": audit.WhatIf,
    "watch_event": audit.WatchEvent,
    "vectors": answers.Vectors,
    "bundle": bundle.Bundle,
    "run": bundle.Run,
    "result": bundle.Result,
    "machine": bundle.Machine,
    "reading": evidence.Reading,
    "look": evidence.Look,
    "spoken": evidence.Spoken,
    "request": evidence.Request,
    "settings": answers.Settings,
    "doctor": answers.Doctor,
    "cache": answers.Cache,
    "comparison": answers.Comparison,
    "support": answers.Support,
    "compatibility": answers.Compatibility,
    "topology_file": topologies.TopologyFile,
    "exploration": exploration.Exploration,
    "engine_exploration": exploration.EngineExploration,
    "explored_finding": exploration.ExploredFinding,
}  # fmt: skip
"""What memqos prints, keeps or reads as a whole; the other definitions are parts of these."""

MODULES = (plan, bundle, evidence, answers, audit, exploration, topologies)
"""The modules of the types."""

OPEN = frozenset({"cache", "kept", "machine", "machine_host", "timing"})
"""Objects with more fields than are described."""

NAMES = {"QosClass": "qos", "CgroupDriver": "driver"}
"""Definitions that have another name than their type."""


def schema() -> dict[str, Any]:
    """The schema as JSON has it."""
    parts = (plan.Protected, plan.Slowed, plan.Unanswered, topologies.NumaGroup, topologies.NumaMachine)
    types = [*DOCUMENTS.values(), *parts]
    _, found = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    texts = {name: one for module in MODULES for name, one in field_texts(module).items()}
    definitions = {}
    for name, one in found.items():
        if told := texts.get(name):
            # In the order in which they are declared.
            one["properties"] = dict.fromkeys([*told, *one["properties"]]) | one["properties"]
            for field, text in told.items():
                one["properties"][field] |= {"description": text} if text else {}
        definitions[defined(name)] = tidy(one)
    for name, one in definitions.items():
        if "properties" in one and name not in OPEN:
            one["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Every JSON document of memqos: what it prints with --json, keeps in a results folder, or reads",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in DOCUMENTS],
        "$defs": dict(sorted(definitions.items())),
    }


def defined(name: str) -> str:
    """A type's name as definitions have theirs: in lower case, words joined by an underscore."""
    return NAMES.get(name) or re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def tidy(value: Any) -> Any:
    """A part of a schema with one-line descriptions and our names, without the titles that msgspec adds."""
    if isinstance(value, list):
        return [tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {name: one for name, one in value.items() if name != "title" or isinstance(one, dict)}
    found = {name: tidy(one) for name, one in named.items()}
    if isinstance(found.get("description"), str):
        found["description"] = " ".join(found["description"].split())
    if isinstance(found.get("$ref"), str):
        head, _, name = found["$ref"].rpartition("/")
        found["$ref"] = f"{head}/{defined(name)}"
    if isinstance(found.get("enum"), list) and len(found["enum"]) == 1:
        found["const"] = found.pop("enum")[0]
    return found


def field_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """The fields of a module's types, with what they inherit, and the text below each; "" for none."""
    own: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            told = own.setdefault(node.name, {})
            for base in node.bases:
                told |= own.get(ast.unparse(base), {})
            for field, text in zip(node.body, [*node.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign):
                    said = ast.literal_eval(text.value) if isinstance(text, ast.Expr) else ""
                    name = ast.unparse(field.target)
                    told[encoded(getattr(module, node.name), name)] = said
    return own


def encoded(kind: type, name: str) -> str:
    """A field's name in JSON."""
    fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
    return next((field.encode_name for field in fields if field.name == name), name)


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """The text of the page of fields."""
    definitions = _definitions()
    parts = [name for name, one in definitions.items() if "properties" in one and name not in DOCUMENTS]
    return HEAD + "".join(section(name, definitions[name]) for name in [*DOCUMENTS, *parts])


def section(name: str, one: dict[str, Any]) -> str:
    rows = [f"\n## {name}\n\n{one['description']}\n\n| field | value | |\n|---|---|---|"]
    for field, value in one["properties"].items():
        always = "*always* " if field in one.get("required", ()) else ""
        told = value.get("description", "").replace("|", "\\|")
        rows.append(f"| `{field}` | {kind_words(value)} | {f'{always}{told}'.strip()} |")
    return "\n".join(rows) + "\n"


def kind_words(value: dict[str, Any]) -> str:
    """What a field's value is, for a cell of a table."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        one = _definitions()[name]
        return f"[{name}](#{name})" if "properties" in one else kind_words(one)
    if "anyOf" in value:
        return " or ".join(kind_words(one) for one in value["anyOf"])
    if "enum" in value or "const" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {kind_words(value['items'])}" if value.get("items") else "list"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"object: by name {kind_words(inner)}" if inner else "object"
    least, most = value.get("minimum"), value.get("maximum")
    span = "" if least is None else f" from {least}" + ("" if most is None else f" to {most}")
    return f"{value.get('type', 'any')}{span}"


@cache
def _definitions() -> dict[str, Any]:
    found: dict[str, Any] = schema()["$defs"]
    return found


if __name__ == "__main__":
    FILE.resolve().write_text(text())
    PAGE.write_text(page())
