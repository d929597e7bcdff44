"""What the pages name is in the code, and the other way round: words, modules, and the files of a results folder."""

import importlib
import re

import pytest

from tests.docs.snippets import DOCS
from tests.meta.layers import LAYERS
from tests.meta.test_layers import PACKAGE, module_exists

VOCABULARY = (DOCS / "reference" / "vocabulary.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in VOCABULARY.splitlines()
    if line.startswith("|") and "`" in line
]
ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?|\w+\.py)`", ARCHITECTURE)))
NAMES = sorted(set(re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", ARCHITECTURE)) - set(PATHS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_word_is_where_the_vocabulary_says(row):
    """Its middle column is a module of the package and a name in it; the word after it is one of its fields."""
    found = re.fullmatch(r"`([a-z_.\d]+)\.(\w+)`(?: \(`(\w+)`\))?", row[2])
    assert found, row[2]
    module, name, field = found.groups()
    value = getattr(importlib.import_module(f"memqos.{module}"), name)
    assert field is None or hasattr(value, field) or field in value.__annotations__


def test_every_word_stands_there_once():
    words = [row[0] for row in ROWS]
    assert len(words) > 40
    assert sorted(set(words)) == sorted(words)


def test_every_port_is_a_word():
    """Ports are protocols that others adapt to: each is a word that people have to know."""
    ports = {
        f"{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}.{name}"
        for path in PACKAGE.rglob("base.py")
        for name in re.findall(r"^class (\w+)\(Protocol\)", path.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`([\w.]+)`", VOCABULARY))
    assert ports
    assert ports <= named, f"words for {sorted(ports - named)}"


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_architecture_is_there(path):
    assert (PACKAGE / path).exists() or (PACKAGE.parents[1] / path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_architecture_is_there(name):
    """A module of the package, or a name in one."""
    module, _, last = name.rpartition(".")
    if not module_exists(name):
        assert module_exists(module), f"{name} is no module, and {module} neither"
        assert hasattr(importlib.import_module(f"memqos.{module}"), last)


def test_every_group_of_modules_has_a_layer_on_the_page():
    table = ARCHITECTURE[ARCHITECTURE.index("## Layers") : ARCHITECTURE.index("## Ports")]
    groups = {name.partition(".")[0] for name in LAYERS} - {"__init__", "__main__"}
    assert groups == set(re.findall(r"`(\w+)`", table))


def test_the_page_of_results_names_every_file_that_the_plugin_writes():
    page = (DOCS / "reference" / "results.md").read_text()
    code = "".join(path.read_text() for path in (PACKAGE / "plugin").rglob("*.py"))
    written = set(re.findall(r'"(\w+\.(?:jsonl?|txt|xml))"', code))
    assert "bundle.json" in written
    assert {name for name in written if f"`{name}`" not in page} == set()
