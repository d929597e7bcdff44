"""The type of drawn and shrunk documents: manifests, configurations and lifecycles as from json.loads."""

from __future__ import annotations

from typing import Any

__all__ = ["Document"]

Document = dict[str, Any]
