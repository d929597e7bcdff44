"""The tree that the docstring of `errors` draws is the tree that exists, and errors survive pickling."""

import inspect
import pickle
import re

import pytest

from memqos import errors
from memqos.errors import ExitCode, ManifestError, MemqosError


def classes() -> list[type[MemqosError]]:
    return [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, MemqosError)]


def drawn() -> dict[str, tuple[str, int]]:
    """Class name to its parent in the drawing and its exit code."""
    found: dict[str, tuple[str, int]] = {}
    stack: list[tuple[int, str]] = [(-1, "Exception")]
    for line in errors.__doc__.splitlines():
        match = re.match(r"(?P<indent>[ │├└─]*)(?P<name>\w+Error)\b.*?(?P<code>\d)?$", line.rstrip())
        if not match:
            continue
        depth = len(match["indent"])
        while stack[-1][0] >= depth:
            stack.pop()
        found[match["name"]] = (stack[-1][1], int(match["code"] or ExitCode.MACHINERY))
        stack.append((depth, match["name"]))
    return found


def test_drawing_is_the_tree():
    real = {kind.__name__: (kind.__bases__[0].__name__, int(kind.exit_code)) for kind in classes()}

    assert drawn() == real


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling(kind):
    error = kind("it broke.", where="here:1", next_step="Mend it.", data={"n": 1})

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert type(again) is kind
    assert (again.what, again.where, again.next_step, again.data) == ("it broke.", "here:1", "Mend it.", {"n": 1})
    assert str(again) == "here:1: it broke. Mend it."


def test_manifest_error_names_file_line_and_field():
    error = ManifestError.at("must be a quantity.", file="pod.yaml", line=7, field="spec.x", got="12q")

    assert str(error) == "pod.yaml:7: spec.x: must be a quantity."
    assert error.data == {"file": "pod.yaml", "line": 7, "field": "spec.x", "got": "12q"}


def test_everything_public_is_listed():
    assert sorted(errors.__all__) == sorted([kind.__name__ for kind in classes()] + ["ExitCode"])
