"""In-place resize of pods, KEP-1287: the kubelet's decision, and the steps of the actuation."""

from __future__ import annotations

from memqos.engine.resize.entry import resize_pods, standing_after
from memqos.engine.resize.outcome import Activity, Left, Resize, ResizeOutcome, ResizePlan, ResizeStep, StepKind, Usage

__all__ = [
    "Activity",
    "Left",
    "Resize",
    "ResizeOutcome",
    "ResizePlan",
    "ResizeStep",
    "StepKind",
    "Usage",
    "resize_pods",
    "standing_after",
]
