"""The public API does not change without a change of these texts."""

import builtins
import collections.abc
import re
import subprocess
import sys
from inspect import isfunction

import pytest

import memqos
import memqos.testing
from memqos import facade
from tests.golden.api.surface import FOLDER, MODULES, WIDEST, surface
from tests.meta.test_layers import PACKAGE


@pytest.mark.parametrize("name", MODULES)
def test_names_and_signatures_are_the_golden_ones(name):
    """`python -m tests.golden.api.surface` writes the texts again."""
    assert surface(name) == (FOLDER / name).read_text()


@pytest.mark.parametrize("name", MODULES)
def test_the_texts_can_be_reviewed(name):
    assert max(map(len, (FOLDER / name).read_text().splitlines())) <= WIDEST


def test_the_package_has_each_name_of_the_facade_and_no_other():
    assert memqos.__all__ == facade.__all__
    assert {name: getattr(memqos, name) for name in memqos.__all__} == {
        name: getattr(facade, name) for name in facade.__all__
    }
    assert set(memqos.__all__) <= set(dir(memqos))
    with pytest.raises(AttributeError, match="module 'memqos' has no attribute 'nothing'"):
        memqos.nothing  # noqa: B018 - looking is the test


def test_parameter_and_return_types_can_be_imported():
    plain = {*dir(builtins), *dir(collections.abc), "Document", "Path"}
    known = {*memqos.__all__, *memqos.testing.__all__, *plain}
    for module in MODULES.values():
        for name in module.__all__:
            value = getattr(module, name)
            told = value.__annotations__.values() if isfunction(value) else ()
            words = set(re.findall(r"\b[A-Z]\w+", " ".join(map(str, told))))
            assert words <= known, f"{name} speaks of {words - known}, which nobody can import"


def test_no_name_hides_a_module():
    modules = {path.stem for path in PACKAGE.iterdir()}
    assert not modules & {*memqos.__all__, *memqos.testing.__all__}


def test_no_name_is_in_both():
    assert not set(memqos.__all__) & set(memqos.testing.__all__)


def test_the_package_alone_imports_nothing_of_its_own():
    """An import of the package costs nothing, and a verb imports only what it uses."""
    code = "import memqos, sys; from memqos import frame; print([name for name in sys.modules if 'engine' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
