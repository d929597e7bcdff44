"""Random pods, configurations and requests: drawn by hypothesis, judged, and shrunk where they deviate."""

from __future__ import annotations

from typing import Any

__all__ = ["Document"]

Document = dict[str, Any]
"""A manifest, a configuration, a request or a tree of cgroups, as from json.loads."""
