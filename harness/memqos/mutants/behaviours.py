"""Runs claims about behaviour without pytest, by calling the suites' tests as functions.

A test gets plain values in place of the plugin's fixtures; fixtures of its own module are called the same way. Only the
test's own claim counts, as if it were the only one selected.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memqos.catalog.data import data_root
from memqos.engine.answer.finding import Finding
from memqos.errors import NonconformanceError, UnknownNameError

__all__ = ["behaviour_findings", "suite_test_of"]

Function = Callable[..., Any]


@dataclass
class SettledFindings:
    """Replaces the fixture `qos_evidence`: keeps a test's findings."""

    findings: list[Finding] = field(default_factory=list)

    def settle(self, *findings: Finding | Iterable[Finding]) -> None:
        """Keep the findings; the test ends after this call."""
        self.findings += [one for group in findings for one in ([group] if isinstance(group, Finding) else group)]

    def attach(self, name: str, value: object) -> None:
        """Keeps nothing."""


@cache
def _modules(chapter: str) -> tuple[ModuleType, ...]:
    """The modules of a chapter's tests."""
    return tuple(_module(file) for file in sorted((data_root() / "suites" / chapter).glob("test_*.py")))


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"memqos_suite_{file.parent.name}_{file.stem}", file)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - it is a Python file
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def suite_test_of(claim: str) -> Function:
    """The first test of the suites that proves a claim; UnknownNameError if none does."""
    for module in _modules(claim.partition("/")[0]):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and claim in _marked(function, "claim"):
                return function
    raise UnknownNameError.of("test of a claim", claim, [])


def _marked(function: Function, name: str) -> tuple[str, ...]:
    """The arguments of a test's marks of this name."""
    return tuple(str(one) for mark in getattr(function, "pytestmark", ()) if mark.name == name for one in mark.args)


def behaviour_findings(claim: str, node: Any, kubelets: Mapping[str, Any], catalogue: Any) -> list[Finding]:
    """The findings that the test of a claim settles on a node, also those before it became not observable.

    kubelets: the catalogue's, by id. catalogue: gives `pod` and `kubelet` by name.
    """
    function = suite_test_of(claim)
    settled = SettledFindings()
    kubelet = next((kubelets[name] for name in _marked(function, "kubelet") if name in kubelets), None)
    given = {
        "qos_node": node,
        "qos_fresh_node": node,
        "qos_kubelet": kubelet,
        "qos_catalog": catalogue,
        "qos_scene": _scene(claim),
        "qos_zone": 1,
        "qos_evidence": settled,
    }
    with contextlib.suppress(NonconformanceError, pytest.skip.Exception), contextlib.ExitStack() as stack:
        _called(function, given, stack)
    return settled.findings


def _scene(claim: str) -> Callable[..., contextlib.AbstractContextManager[SimpleNamespace]]:
    """Replaces the fixture `qos_scene`: runs only the parts that this claim needs."""
    shown = SimpleNamespace(shows=lambda *asked: claim in asked)
    return lambda *_: contextlib.nullcontext(shown)


def _called(function: Function, given: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    """Call a test or fixture with the values and module fixtures that its parameters name."""
    own = inspect.unwrap(function)
    values = {}
    for name in inspect.signature(own).parameters:
        if name not in given:
            fixture = own.__globals__.get(name)
            if fixture is None:
                raise UnknownNameError.of("fixture", name, sorted(given))
            given[name] = _made(inspect.unwrap(fixture), given, stack)
        values[name] = given[name]
    return own(**values)


def _made(fixture: Function, given: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    made = _called(fixture, given, stack)
    if not inspect.isgeneratorfunction(fixture):
        return made

    @contextlib.contextmanager
    def lasting() -> Iterator[Any]:
        yield from made

    return stack.enter_context(lasting())
