"""What a file says that does not fit its type: the place, the line and the words."""

from enum import StrEnum
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from memqos.errors import ManifestError, UsageError
from memqos.validation import CheckedFile, checked, dotted


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, description="a size from 1 on")] = 1
    texts: dict[str, str] = {}


class Whole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    colour: Colour = Colour.RED
    parts: tuple[Part, ...] = ()
    either: int | str = 0
    inner: Part | None = None


@pytest.fixture
def read(tmp_path):
    def call(text):
        (tmp_path / "a.toml").write_text(text)
        return CheckedFile.toml(tmp_path / "a.toml", most=1 << 20, what="the file")

    return call


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[a]\ncolour = "green"', r"a.toml:2: a: 'colour' must be one of red, blue, not 'green'."),
        ("[a]\nname = 1", r"a.toml:2: a: 'name' must be a string, not 1."),
        ("[a]", r"a.toml:1: a: missing required field 'name'."),
        ('[a]\nname = "x"\n"odd key" = 1', r"a.toml:3: a: unknown field 'odd key'. Known: name, colour, parts, ei"),
        ('[a]\nname = "x"\nid = 1', r"a.toml:3: a: unknown field 'id'."),
        ("a = 3", r"a.toml:1: a: it must be a table, not 3."),
        ('[a]\nname = "x"\neither = 1.5', r"a.toml:3: a: 'either' must be a whole number or a string, not 1.5."),
        ('[a]\nname = "x"\nparts = 3', r"a.toml:3: a: 'parts' must be a list, each item a table, not 3."),
        (
            '[a]\nname = "x"\nparts = [\n  { size = 2 },\n  { size = 0 },\n]',
            r"a.toml:3: a.parts[1]: 'size' must be a s",
        ),
        ('[a]\nname = "x"\n[[a.parts]]\n[[a.parts]]\nsize = 0', r"a.toml:5: a.parts[1]: 'size' must be a size from"),
        (
            '[a]\nname = "x"\n[[a.parts]]\n[a.parts.texts]\nx = 1',
            r"a.toml:5: a.parts[0].texts: 'x' must be a st",
        ),
        ('[a]\nname = "x"\ninner.size = "y"', r"a.toml:3: a.inner: 'size' must be a size from 1 on, not 'y'."),
        ('[a]\nname = """\n[b]\ncolour = 1\n"""\n\ncolour = 2', r"a.toml:7: a: 'colour' must be one of red, blue, n"),
        ("[ 'a' ] # x\nname = 1", r"a.toml:2: a: 'name' must be a string, not 1."),
        (f"[a]\nname = {['y' * 200]}", f"a.toml:2: a: 'name' must be a string, not ['{'y' * 37}...{'y' * 38}']."),
    ],
)
def test_what_does_not_fit_is_named_with_its_line(read, text, says):
    with pytest.raises(ManifestError) as raised:
        read(text).checked(("a",), Whole, more={"id": 1} if "id =" in text else {})
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\na = [,]", "a.toml:2: the file is not TOML: "),
        ("a = " + "[" * 9999, "a.toml: the nesting is deeper than memqos reads."),
        ("a = " + "1" * 9999, "a.toml: the file is not TOML: Exceeds the limit"),
    ],
)
def test_what_is_not_toml_is_rejected(read, text, says):
    with pytest.raises(ManifestError) as raised:
        read(text)
    assert says in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none.toml: the list cannot be read: No such file or directory."):
        CheckedFile.toml(tmp_path / "none.toml", most=1, what="the list")


def test_what_fits_is_converted():
    found = checked({"name": "x", "colour": "blue", "parts": [{"size": 2}]}, Whole)
    assert found == Whole(name="x", colour=Colour.BLUE, parts=(Part(size=2),))
    assert dotted(("a", 0, "b")) == "a[0].b"
