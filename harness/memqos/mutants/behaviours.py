"""Claims about behaviour without a run of pytest: the suites' tests are called as functions.

A test of a suite is given the plugin's fixtures by name. Here each gets a plain value, and the fixtures of a suite's
own module are called in the same way. A test's own claim alone is looked at, as when it is the only one selected.
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

__all__ = ["behaviour_findings", "proving"]

Function = Callable[..., Any]


@dataclass
class Settled:
    """In the place of `qos_evidence`: keeps the findings that a test settles, and nothing else."""

    findings: list[Finding] = field(default_factory=list)

    def settle(self, *findings: Finding | Iterable[Finding]) -> None:
        """Keep them; the test ends after this call."""
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


def proving(claim: str) -> Function:
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
    """What the test of a claim settles on a node; what it settled until it found that it cannot be observed.

    kubelets: those of the catalogue, by id. catalogue: gives `pod` and `kubelet` by name.
    """
    function = proving(claim)
    settled = Settled()
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
    """In the place of `qos_scene`: only what this claim looks at happens."""
    shown = SimpleNamespace(shows=lambda *asked: claim in asked)
    return lambda *_: contextlib.nullcontext(shown)


def _called(function: Function, given: dict[str, Any], stack: contextlib.ExitStack) -> Any:
    """A test or a fixture with the values and the fixtures of its module that it asks for, by name."""
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
