"""memqos.schema.json, made of memqos.report.documents: `python -m tests.docs.schema_file` writes it anew."""

import ast
import inspect
import json
import re
from types import ModuleType
from typing import Any

import msgspec

from memqos.report.documents import answers, bundle, plan
from tests.docs.snippets import DOCS

FILE = DOCS / "reference" / "memqos.schema.json"

DOCUMENTS: dict[str, type] = {
    "plan": plan.Plan,
    "differences": answers.Differences,
    "errata": answers.Errata,
    "analysis": answers.Analysis,
    "resizes": answers.Resizes,
    "audit": answers.Audit,
    "bundle": bundle.Bundle,
    "run": bundle.Run,
    "result": bundle.Result,
    "machine": bundle.Machine,
    "reading": bundle.Reading,
    "look": bundle.Look,
    "spoken": bundle.Spoken,
    "request": bundle.Request,
    "settings": answers.Settings,
    "doctor": answers.Doctor,
    "cache": answers.Cache,
    "comparison": answers.Comparison,
    "support": answers.Support,
}  # fmt: skip
"""What memqos prints or keeps as a whole; the other definitions are parts of these."""

OPEN = frozenset({"cache", "kept", "machine", "machine_host", "timing"})
"""Objects with more fields than are described."""

NAMES = {"QosClass": "qos", "CgroupDriver": "driver"}
"""Definitions that have another name than their type."""


def schema() -> dict[str, Any]:
    """The schema as JSON has it."""
    types = [*DOCUMENTS.values(), plan.Protected, plan.Slowed, plan.Unanswered]
    _, found = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    texts = {name: one for module in (plan, bundle, answers) for name, one in field_texts(module).items()}
    definitions = {}
    for name, one in found.items():
        for field, text in texts.get(name, {}).items():
            one["properties"][field]["description"] = text
        definitions[defined(name)] = tidy(one)
    for name, one in definitions.items():
        if "properties" in one and name not in OPEN:
            one["additionalProperties"] = False
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Every JSON document of memqos: what it prints with --json, and what it keeps in a results folder",
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
    """What stands below fields of a module's types, with what they inherit: by type and field."""
    own: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            told = own.setdefault(node.name, {})
            for base in node.bases:
                told |= own.get(ast.unparse(base), {})
            for field, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    told[ast.unparse(field.target)] = ast.literal_eval(text.value)
    return own


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.resolve().write_text(text())
