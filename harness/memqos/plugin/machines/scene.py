"""A scene: what a module's fixture makes happen once, for the selected tests that look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from memqos.catalog.kubelets import KubeletCase
from memqos.laboratory.station import Station
from memqos.plugin.collection.citing import claim_of
from memqos.plugin.machines.ahead import observable_tests

__all__ = ["Scene", "scene_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a module's fixture makes happen under one kubelet. claims: those of the tests that look at it."""

    claims: frozenset[str]

    def shows(self, *claims: str) -> bool:
        """Whether a selected test, whose claim is observable on this node, proves one of these ("chapter/name")."""
        return not self.claims.isdisjoint(claims)


def scene_of(module: pytest.Module, station: Station, kubelet: KubeletCase) -> Scene:
    """The scene of a module's tests under this kubelet."""
    tests = observable_tests(module, station)
    return Scene(claims=frozenset(claim_of(one) for one in tests if _kubelet(one, kubelet) == kubelet))


def _kubelet(item: pytest.Function, otherwise: KubeletCase) -> object:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("qos_kubelet", otherwise)
