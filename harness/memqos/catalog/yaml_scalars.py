"""The scalars of YAML as Kubernetes' own reader resolves them (YAML 1.1): nulls, booleans, numbers, and text."""

from __future__ import annotations

import math
import re

import yaml

__all__ = ["ScalarValue", "plain_number", "resolved"]

ScalarValue = None | bool | int | float | str

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INFINITE = (".inf", ".Inf", ".INF")
_NO_JSON = frozenset({*(f"{sign}{word}" for sign in ("", "+", "-") for word in _INFINITE), ".nan", ".NaN", ".NAN"})
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)", re.ASCII)
_LONGEST_NUMBER = 64


def resolved(event: yaml.ScalarEvent) -> ScalarValue:
    """The value of a scalar: quoted ones are text, plain ones may be null, a boolean or a number."""
    text: str = event.value
    if event.tag == "tag:yaml.org,2002:str" or (event.style is not None and event.style != ""):
        return text
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _NO_JSON:
        # A float, which JSON has not: where a text is expected it is refused, as the API server refuses it.
        return math.nan if text[1] in "nN" else math.inf
    return plain_number(text) if text[0] in "+-.0123456789" else text


def plain_number(written: str) -> int | float | str:
    """The number that a plain scalar with a digit, a sign or a point at its begin is, or the text."""
    if len(written) > _LONGEST_NUMBER:
        return written
    # Underscores may stand between the digits of a number, and belong to any other text: 1_000Mi is one.
    text = written if written[0] == "." else written.replace("_", "")
    if _INT.fullmatch(text):
        digits = text.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
        count = int(digits, 8) if octal else int(digits, 0)
        return -count if text[0] == "-" else count
    found = float(text) if _FLOAT.fullmatch(text) else math.inf
    # What no float can hold stays text, as Kubernetes' own reader has it.
    return written if found in {math.inf, -math.inf} else found
