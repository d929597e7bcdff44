"""What tests say of themselves by markers, and whether it is said right.

The catalogue reads YAML and is imported when a marker names something in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pytest

from memqos import claims
from memqos.errors import UnknownNameError, UsageError
from memqos.plugin.collection.citing import claims_below

__all__ = ["check_markers", "has_empty_parameters", "kubelet_ids"]


@lru_cache(maxsize=2)
def kubelet_ids(*, default: bool = False) -> tuple[str, ...]:
    """Every kubelet of the catalogue, or those of the default."""
    from memqos.catalog.kubelets import load_kubelets

    return tuple(kubelet.id for kubelet in load_kubelets() if kubelet.default or not default)


def has_empty_parameters(item: pytest.Item) -> bool:
    """Whether narrowing left no kubelet for this test: pytest then keeps one item whose parameters are its NOTSET.

    Only from 8.4 on the item's id says so, too.
    """
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(type(value).__name__ == "NotSetType" for value in callspec.params.values())


def check_markers(item: pytest.Item) -> None:
    """Every marker is written as it has to be, and names what there is; UsageError if not."""
    where = item.nodeid
    names = getattr(item, "fixturenames", ())
    if ("qos_request" in names or "qos_case" in names) and has_empty_parameters(item):
        from memqos.cases import cases_of

        chapter = item.path.parent
        of_chapter = [claim for claim in claims_below(chapter.parent).values() if claim.chapter == chapter.name]
        cases_of(of_chapter)
        known = [claim.id for claim in of_chapter]
        wanted = "has the name of a request" if "qos_request" in names else "says what it asks for"
        raise UsageError(f"no claim of this chapter {wanted}: {', '.join(known)}.", where=where)
    for marker in item.iter_markers("claim"):
        _check_claim(item, marker, where)
    if len(list(item.iter_markers("claim"))) > 1:
        raise UsageError("a test cites exactly one claim, this one cites several.", where=where)
    for marker in item.iter_markers("needs"):
        _check_names("needs(feature, ...)", marker, tuple(claims.NEEDS), where)
    for marker in item.iter_markers("behaviour"):
        if marker.args or marker.kwargs:
            raise UsageError("the marker 'behaviour' takes no arguments.", where=where)
    _check_kubelets(item, where)
    for marker in item.iter_markers("machine"):
        if marker.args or not marker.kwargs or set(marker.kwargs) - {"profile", "topology"}:
            raise UsageError("the marker 'machine' is written machine(profile=..., topology=...).", where=where)


def _check_claim(item: pytest.Item, marker: pytest.Mark, where: str) -> None:
    if marker.kwargs or len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise UsageError("the marker 'claim' is written claim(\"chapter/name\").", where=where)
    root = item.path.parent.parent
    known = claims_below(root)
    if marker.args[0] not in known:
        raise UnknownNameError.of("claim", marker.args[0], sorted(known), where=where)


def _check_kubelets(item: pytest.Item, where: str) -> None:
    for marker in (one for name in ("kubelet", "more") for one in item.iter_markers(name)):
        if marker.name == "kubelet" or marker.args or marker.kwargs:
            _check_names(f"{marker.name}(id, ...)", marker, kubelet_ids(), where)


def _check_names(signature: str, marker: pytest.Mark, known: Sequence[str], where: str) -> None:
    if marker.kwargs or not marker.args:
        raise UsageError(f"the marker '{marker.name}' is written {signature}.", where=where)
    for name in marker.args:
        if name not in known:
            raise UnknownNameError.of(marker.name, str(name), list(known), where=where)
