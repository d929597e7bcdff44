"""Resizes as text and as a JSON document.

The document: memqos_format, release, resizes (in the kubelet's order), changes (of files and messages of the tree, as
in `memqos expect --diff`). A resize: name, namespace, uid, outcome, message, reason, volumes, steps, left (leftovers:
subject, cgroup, knob, holds, anew, cause, upstream). A step: kind, resource, cgroup (path), container, cri (the
message), knobs (written, value, reason), reason; empty fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from memqos.engine.answer.difference import differences, differences_document, differences_text
from memqos.engine.answer.document import FORMAT, expected_document, reason_document
from memqos.engine.answer.explain import reason_lines, shown_amount, written_text
from memqos.engine.releases.release import titled
from memqos.engine.resize.outcome import Resize, ResizePlan, ResizeStep
from memqos.engine.translate.explain import cri_document
from memqos.model.knob import Knob

__all__ = ["resize_document", "resize_reasons", "resize_text"]


def resize_text(plan: ResizePlan) -> str:
    """Every resize with its steps and changes."""
    count = f"{len(plan.resizes)} resize{'s' if len(plan.resizes) > 1 else ''}"
    lines = [f"Kubernetes {titled(plan.before.release)}, cgroup driver {plan.before.driver}: {count}"]
    for one in plan.resizes:
        lines += ["", _head(one), *reason_lines(one.reason, indent="  ")]
        lines += [f"  {one.volumes}"] if one.volumes else []
        for number, step in enumerate(one.steps, start=1):
            lines += [f"  {number}. {_title(step)}", f"     {step.reason.rule}", *_said(step)]
        lines += _left(one)
    changed = differences_text(differences(plan.before, plan.after), "before", "after")
    return "\n".join([*lines, "", changed])


def resize_reasons(plan: ResizePlan, knob: Knob) -> str:
    """The steps that write one interface file, with the reasons of its value, and the resizes without such a step."""
    parts = []
    for one in plan.resizes:
        lines = [_head(one), *reason_lines(one.reason, indent="  ")]
        for number, step in enumerate(one.steps, start=1):
            if knob in step.knobs:
                written = step.knobs[knob]
                text = written_text(written) if written.undecided else shown_amount(written.written)
                lines += [f"  {number}. {_title(step)}: {knob} {text}"]
                lines += reason_lines(written.reason, indent="     ")
                lines += reason_lines(step.reason, indent="     ")
        if not any(knob in step.knobs for step in one.steps):
            lines.append(f"  no step writes {knob}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def resize_document(plan: ResizePlan) -> dict[str, Any]:
    """All of it."""
    changes = differences_document(differences(plan.before, plan.after), "before", "after")
    return {
        "memqos_format": FORMAT,
        "release": plan.before.release,
        "resizes": [
            {
                "name": one.name,
                "namespace": one.namespace,
                "uid": one.uid,
                "outcome": one.outcome.value,
                "message": one.message,
                "reason": reason_document(one.reason),
                "volumes": one.volumes,
                "steps": [_step(step) for step in one.steps],
                "left": [
                    {field.name: getattr(left, field.name) for field in fields(left)} | {"subject": str(left.subject)}
                    for left in one.left
                ],
            }
            for one in plan.resizes
        ],
        "changes": changes["changes"],
    }


def _head(one: Resize) -> str:
    return f"pod {one.namespace}/{one.name}: {one.outcome}{f': {one.message}' if one.message else ''}"


def _title(step: ResizeStep) -> str:
    whose = f"of container {step.container}" if step.container else "of the pod"
    return f"{step.kind} {f'({step.resource}) ' if step.resource else ''}{whose}"


def _said(step: ResizeStep) -> Iterator[str]:
    if step.message is not None:
        fields = cri_document(step.message)
        unified = fields.pop("unified", {})
        fields.pop("hugepage_limits", None)
        said = [f"{name}={value}" for name, value in (*fields.items(), *unified.items())]
        yield f"       sends  {' '.join(said)}"
    if step.knobs:
        written = [f"{knob}={one.shown if one.undecided else one.written}" for knob, one in step.knobs.items()]
        yield f"       writes {'; '.join(written)}"
    if step.reach:
        yield f"       {step.reach}"


def _left(resize: Resize) -> Iterator[str]:
    if resize.left:
        yield "  left behind:"
    for one in resize.left:
        yield f"    {one.knob} of {one.subject} stays {one.holds}; after recreation it is {one.anew}"
        if one.cause:
            yield f"      {one.cause} ({one.upstream})"


def _step(step: ResizeStep) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": step.kind.value,
        "resource": step.resource,
        "cgroup": str(step.path),
        "container": step.container,
        "cri": cri_document(step.message) if step.message is not None else {},
        "knobs": {knob.value: expected_document(one) for knob, one in step.knobs.items()},
        "reach": step.reach,
        "reason": reason_document(step.reason),
    }
    return {name: value for name, value in found.items() if value}
