"""The chapters of behaviour as modules, so that their tests can be called on a kernel in miniature."""

import importlib.util
import inspect
from pathlib import Path

import pytest

from memqos.catalog.kubelets import load_kubelets
from memqos.claims import About
from memqos.plugin.catalogue import Catalogue
from memqos.plugin.evidence import Evidence, Folder
from memqos.plugin.keys import Notes

SUITES = Path(__file__).parents[3] / "suites"
CATALOGUE = Catalogue()
KUBELETS = {kubelet.id: kubelet for kubelet in load_kubelets()}


def chapter(name, file=""):
    """The module of a chapter's tests; file: which, if not the one of the chapter's own name."""
    spec = importlib.util.spec_from_file_location(f"suite_{name}", SUITES / name / f"test_{file or name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(module):
    """Every test of the chapter, with each kubelet that it names."""
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("test_"):
            marks = {mark.name: mark.args for mark in function.pytestmark}
            for kubelet in marks["kubelet"]:
                yield pytest.param(function, KUBELETS[kubelet], id=f"{name}-{kubelet}")


def pods(*names):
    """Pods of the catalogue."""
    return [CATALOGUE.pod(name) for name in names]


def evidence_in(folder):
    """Where a test settles its findings, and the notes that has of them."""
    notes = Notes()
    return Evidence(notes=notes, folder=Folder(folder), amend=lambda finding: finding, about=About.KERNEL), notes
