"""What is drawn and shrunk: manifests, configurations and lifecycles as json.loads gives them."""

from __future__ import annotations

from typing import Any

__all__ = ["Document"]

Document = dict[str, Any]
