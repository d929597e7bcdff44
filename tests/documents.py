"""Whether JSON that memqos wrote is as the schema says that it ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

import memqos.report

FILE = Path(memqos.report.__path__[0]) / "memqos.schema.json"
SCHEMA: dict[str, Any] = json.loads(FILE.read_text())

_FILES = {
    "bundle.json": "bundle",
    "run.json": "run",
    "findings.jsonl": "result",
    "machine.json": "machine",
    "plan.json": "plan",
    "readings.jsonl": "reading",
    "series.jsonl": "look",
    "workloads.jsonl": "spoken",
    "requests.jsonl": "request",
}
"""What a file of a results folder holds, or each of its lines."""


@cache
def _validator(kind: str) -> Any:
    return jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{kind}"}]})


def misfits(document: object, kind: str) -> list[str]:
    """What in a document is not as the definition of this name says."""
    return [error.message[:500] for error in _validator(kind).iter_errors(document)]


def documents_of(folder: Path) -> Iterator[tuple[Path, str, Any]]:
    """Every document of a results folder, with its file and what kind it is of."""
    for file in sorted(folder.rglob("*.json*")):
        if file.name in _FILES:
            text = file.read_text(encoding="utf-8")
            for one in text.splitlines() if file.suffix == ".jsonl" else [text]:
                yield file, _FILES[file.name], json.loads(one)


def assert_fits(folder: Path) -> set[str]:
    """Every document of a results folder is as its schema says; returns the kinds that were there."""
    found = [(str(file), misfits(document, kind)) for file, kind, document in documents_of(folder)]
    assert [one for one in found if one[1]] == []
    return {kind for _, kind, _ in documents_of(folder)}
