"""What is drawn here must not depend on which modules other tests have imported."""

import pytest
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers


@pytest.fixture(autouse=True)
def same_draws(monkeypatch):
    """hypothesis draws constants of all imported modules now and then; here it draws none."""
    none = providers.Constants()
    monkeypatch.setattr(providers, "_get_local_constants", lambda: none)
    monkeypatch.setattr(providers, "CONSTANTS_CACHE", LRUCache(1024))
