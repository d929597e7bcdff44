"""Where this host's cache is, for what is kept there that is no machine's."""

from __future__ import annotations

import os
from pathlib import Path

from memqos.vm.cache.store import default_cache

__all__ = ["cache_root"]


def cache_root() -> Path:
    """The cache's folder, as the environment chooses it; it need not be there."""
    return default_cache(os.environ).root
