"""In-place resize of pods, KEP-1287: the kubelet's decision, and the steps of the actuation."""

from __future__ import annotations

from memqos.engine.resize.entry import resize_pods, standing_after
from memqos.engine.resize.outcome import Activity, Left, Resize, ResizeOutcome, ResizePlan, ResizeStep, StepKind, Usage
from memqos.engine.resize.takeover import keeps_records, taken_over, why_not_taken_over

__all__ = [
    "Activity",
    "Left",
    "Resize",
    "ResizeOutcome",
    "ResizePlan",
    "ResizeStep",
    "StepKind",
    "Usage",
    "keeps_records",
    "resize_pods",
    "standing_after",
    "taken_over",
    "why_not_taken_over",
]
