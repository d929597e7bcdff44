"""Rows that record whether a test read them.

A row counts as read when a running test accesses it. A row that is a plain list also counts when it is unpacked into a
test's parameters; code that processes a row before the tests calls `used`.
"""

from __future__ import annotations

from typing import Any

Row = tuple[str, str, str]
"""The table's file, the name of the table in it ("" for the file itself), and the row's number or key."""

READ: set[Row] = set()
"""The rows that have been read in this process."""

ALL: set[Row] = set()
"""The rows of the tables that have been opened in this process."""

running = False
"""Whether a test is running; before that tests are collected, and rows sorted out."""


class _Mapping(dict[str, Any]):
    row: Row

    def __getitem__(self, key: str) -> Any:
        _look(self.row)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        _look(self.row)
        return super().get(key, default)

    def items(self) -> Any:
        _look(self.row)
        return super().items()


class _Sequence(list[Any]):
    row: Row
    whole: bool

    def __getitem__(self, index: Any) -> Any:
        _look(self.row)
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        if self.whole:
            READ.add(self.row)
        _look(self.row)
        return super().__iter__()


def _look(row: Row) -> None:
    if running:
        READ.add(row)


def used(row: Any) -> Any:
    """The row, which counts as read from here on."""
    READ.add(row.row)
    return row


def watched(file: str, document: Any) -> Any:
    """A document whose rows record reads: those of its `tables`, else of each list or mapping at its top."""
    if not isinstance(document, dict):
        return document
    found = {}
    for name, value in document.items():
        if name == "tables":
            found[name] = {table: _rows((file, table), rows) for table, rows in value.items()}
        elif name == "source":
            found[name] = value
        elif isinstance(value, dict) and "rows" in value:
            found[name] = value | {"rows": _rows((file, name), value["rows"])}
        else:
            found[name] = _rows((file, "" if name == "rows" else name), value)
    return found


def _rows(table: tuple[str, str], rows: Any) -> Any:
    if isinstance(rows, list):
        return [_watch(row, (*table, str(number)), whole=True) for number, row in enumerate(rows)]
    if isinstance(rows, dict) and all(isinstance(row, dict | list) for row in rows.values()):
        return {key: _watch(row, (*table, key), whole=True) for key, row in rows.items()}
    return _watch(rows, (*table, ""), whole=False) if isinstance(rows, dict) else rows


def _watch(value: Any, row: Row, *, whole: bool) -> Any:
    if not isinstance(value, dict | list):
        return value  # A bare text or number cannot record reads.
    ALL.add(row)
    if isinstance(value, dict):
        mapping = _Mapping({key: _watch(one, row, whole=False) for key, one in value.items()})
        mapping.row = row
        return mapping
    sequence = _Sequence(_watch(one, row, whole=False) for one in value)
    sequence.row, sequence.whole = row, whole
    return sequence
