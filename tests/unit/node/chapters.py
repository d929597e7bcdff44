"""The behaviour suites as modules, so that their tests can be called on a small model of a kernel."""

import contextlib
import importlib.util
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from memqos.catalog.kubelets import load_kubelets
from memqos.claims import About
from memqos.laboratory.evidence import Folder
from memqos.plugin.collection.catalogue import Catalogue
from memqos.plugin.fixtures import Evidence
from memqos.plugin.keys import Notes

SUITES = Path(__file__).parents[3] / "suites"
CATALOGUE = Catalogue()
KUBELETS = {kubelet.id: kubelet for kubelet in load_kubelets()}


def chapter(name, file=""):
    """The module of a suite's tests; file: its name, if it is not the suite's."""
    spec = importlib.util.spec_from_file_location(f"suite_{name}", SUITES / name / f"test_{file or name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(module):
    """Every test of the suite, with each kubelet that it names."""
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("test_"):
            marks = {mark.name: mark.args for mark in function.pytestmark}
            for kubelet in marks["kubelet"]:
                yield pytest.param(function, KUBELETS[kubelet], id=f"{name}-{kubelet}")


def scenes_of(function):
    """The module's fixtures that this test uses, by name: the fixtures' functions."""
    module = inspect.unwrap(function).__globals__
    found = {name: module[name] for name in given_to(function) if name in module}
    return {name: inspect.unwrap(fixture) for name, fixture in found.items()}


def given_to(function):
    """The parameters of a test or a fixture."""
    return inspect.signature(function, follow_wrapped=False).parameters.keys()


def called(function, given):
    """A test, or a fixture, with those of these that it requests, and with the scenes that are not among them.

    Its scenes run only for its own claim, as when it is the only test selected.
    """
    given = {"qos_scene": scene_for(function), **given}
    scenes = {name: called(scene, given) for name, scene in scenes_of(function).items() if name not in given}
    return function(**{name: value for name, value in {**given, **scenes}.items() if name in given_to(function)})


def _claims_of(function):
    return {mark.args[0] for mark in getattr(function, "pytestmark", []) if mark.name == "claim"}


def scene_for(function):
    """Replaces qos_scene for this test: it selects the test's own claim, and keeps no evidence."""
    claims = _claims_of(function)
    shown = SimpleNamespace(shows=lambda *asked: not claims.isdisjoint(asked))
    return lambda *_: contextlib.nullcontext(shown)


def pods(*names):
    """Pods of the catalogue."""
    return [CATALOGUE.pod(name) for name in names]


def evidence_in(folder):
    """A test's evidence object, and its notes with the findings."""
    notes = Notes()
    return Evidence(notes=notes, folder=Folder(folder), amend=lambda finding: finding, about=About.KERNEL), notes
