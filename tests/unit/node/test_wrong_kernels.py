"""The table of wrong kernels: every test that it names exists and can be called with its arguments."""

import inspect

import pytest

from tests.unit.node.chapters import chapter, given_to
from tests.vm.test_wrong_kernels import WAYS, plugin_values


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.way)
def test_a_test_on_a_wrong_kernel_gets_all_its_fixtures(way):
    module = chapter(way.chapter)
    known, asked = plugin_values(None, None, None, None).keys(), [getattr(module, way.test)]
    for function in asked:
        for name in given_to(function) - known:
            assert hasattr(module, name), f"{way.test} asks for '{name}', which nobody gives it"
            scene = inspect.unwrap(getattr(module, name))
            lasts = inspect.isgeneratorfunction(scene)
            assert not lasts or given_to(scene) <= known, f"the scene '{name}' lasts, and asks for another one"
            asked.append(scene)
