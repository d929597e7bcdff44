"""Draws here must not depend on the modules that other tests imported."""

import pytest
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers


@pytest.fixture(autouse=True)
def same_draws(monkeypatch):
    """hypothesis sometimes draws constants of all imported modules; here it draws none."""
    none = providers.Constants()
    monkeypatch.setattr(providers, "_get_local_constants", lambda: none)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", LRUCache(1024))
