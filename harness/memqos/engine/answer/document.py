"""Plans, reasons and findings as JSON: the same form in every answer and in results.

The text equals that of `json.dumps(value, indent=1)`; values that many cgroups share are encoded once.

`memqos expect --json` prints a plan, and evidence keeps it as plan.json.

Top level: memqos_format (1), release, variant, driver, cgroup_version, revisions (rule family to revision), pods,
cgroups, unavailable (interface file to the reason why no cgroup has it), ignored (field, origin, what: fields that the
release does not know, annotations without effect), refusals (of the kubelet, the API server or the scheduler: by);
not_modelled (runtimes), if any.

A cgroup: level (node, reserved, qos, pod, container), path (for a container its pod's, since only the runtime knows the
leaf), qos, pod (uid), container, knobs. A knob: written (null for an unwritten file), value (the file's text after
that), reason. undecided: the values of all runtime versions, `value` first, if they differ and the version is unknown.
unsettled: why the value is unknown while a pod is resized; undecided then has the possible ones. not_modelled: why
nothing can be expected; value is then null. Values are the texts of the file: "max", bytes, "quota period".

A pod: name, namespace, uid, qos, cgroup (path), containers in start order, sandbox (resources and overhead, as sent
with RunPodSandbox). A container: name, cri (the non-zero fields of LinuxContainerResources), oom_score_adj; refusal,
the runtime's error where it refuses the request; oom_score_adj_unsure, why its processes may have another score; and
translation, where that was asked for (`engine.translate.explain`).

A reason: rule, revision, source, inputs (name, value, origin), arithmetic, rounding, because (the reasons behind it);
empty fields are left out.

A finding: verdict, subject, cgroup, knob, set_by, expected, observed, why_not, reason (null if no rule computes the
expected value), evidence, lost (null if it was not traced): by, told, and hops, each with hop, asked, held and why_not;
measured (true, or left out): whether the expected value was measured on the machine. memqos.schema.json is the
machine-readable form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from memqos.engine.answer.finding import Finding, Hop, HopHeld, Loss, Setter, Subject, Verdict
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Input, Level, Plan, PlannedCgroup, PlannedContainer, PlannedPod, Reason, Remark
from memqos.engine.pod.alike import Explained, ExplainedScore, Explanation, ScoreExplanation, slot, slots_in
from memqos.engine.translate.container import translate
from memqos.engine.translate.explain import Document, cri_document, translation_document
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob

__all__ = [
    "FORMAT",
    "JsonText",
    "Slotted",
    "Template",
    "cgroup_document",
    "expected_document",
    "finding_document",
    "finding_from",
    "plan_document",
    "plan_parts",
    "reason_document",
    "reason_from",
    "remark_document",
    "subject_document",
    "subject_from",
]

_KEPT = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A document, perhaps with slots in its texts; equal only to itself."""

    document: object


@dataclass(frozen=True, slots=True)
class Slotted:
    """A document with its shared part in `template`; names: the texts for its slots."""

    template: Template
    names: tuple[str, ...] = ()


class JsonText:
    """Encodes documents whose values may be `Slotted`, and caches the text of the last templates."""

    def __init__(self) -> None:
        self._cut = lru_cache(maxsize=_KEPT)(_parts)
        self._whole = lru_cache(maxsize=_KEPT)(_plain)

    def text(self, value: object, depth: int = 0) -> str:
        """The text of a value at nesting level `depth`."""
        return _text(value, "\n" + depth * " ", quoted, self._filled)

    def _filled(self, value: Slotted, line: str) -> str:
        if not value.names:
            return self._whole(value.template, line)
        parts, numbers = self._cut(value.template, line)
        if numbers:
            names = [quoted(name)[1:-1] for name in value.names]
            parts = parts.copy()
            parts[1::2] = [names[number] for number in numbers]
        return "".join(parts)


def _parts(template: Template, line: str) -> tuple[list[str], list[int]]:
    """The text of a template split at its slots, every second part a slot's, and the slots' numbers."""
    parts = slots_in(_text(template.document, line, _quoted_around_slots, _nothing_slotted))
    return parts, [int(number) for number in parts[1::2]]


def _plain(template: Template, line: str) -> str:
    """The text of a template without slots: text that looks like a slot is the user's."""
    return _text(template.document, line, quoted, _nothing_slotted)


def _quoted_around_slots(text: str) -> str:
    if text.isascii():
        return quoted(text)
    parts = slots_in(text)
    parts[::2] = [quoted(part)[1:-1] for part in parts[::2]]
    parts[1::2] = [slot(int(number)) for number in parts[1::2]]
    return f'"{"".join(parts)}"'


def _nothing_slotted(value: Slotted, line: str) -> str:
    raise TypeError(f"a template inside a template: {value.template.document!r} at {line!r}")


def _text(value: object, line: str, quote: Callable[[str], str], fill: Callable[[Slotted, str], str]) -> str:
    """line: a line feed, and the indentation of the value's own line.

    Most values are texts: encoding them without recursion halves the time.
    """
    if isinstance(value, str):
        return quote(value)
    inner = line + " "
    if isinstance(value, dict):
        parts = [
            f"{quoted(name)}: {quote(one) if type(one) is str else _text(one, inner, quote, fill)}"
            for name, one in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(parts)}{line}}}" if parts else "{}"
    if isinstance(value, list | tuple):
        parts = [quote(one) if type(one) is str else _text(one, inner, quote, fill) for one in value]
        return f"[{inner}{f',{inner}'.join(parts)}{line}]" if parts else "[]"
    return fill(value, line) if isinstance(value, Slotted) else json.dumps(value)


FORMAT = 1
"""Incremented when a field changes its meaning; new fields do not change it."""


def plan_document(plan: Plan, *, translated_for: Kubelet | None = None) -> Document:
    """The whole plan; translated_for: the kubelet whose requests are shown translated, None for no translation."""
    parts = plan_parts(plan, translated_for=translated_for)
    return {name: list(part) if isinstance(part, Iterator) else part for name, part in parts.items()}


def plan_parts(plan: Plan, *, translated_for: Kubelet | None = None, slotted: bool = False) -> Document:
    """The plan with iterators instead of its long lists, pods and cgroups, to save memory with many pods.

    slotted: whether documents that pods share are `Slotted`, which `JsonText` writes.
    """
    parts = _Slotting() if slotted else _Whole()
    stated: Document = {
        "memqos_format": FORMAT,
        "release": plan.release,
        "variant": plan.variant.value,
        "driver": plan.driver.value,
        "cgroup_version": plan.cgroup_version.value,
        "revisions": dict(plan.revisions),
        "pods": (_pod(pod, translated_for, parts) for pod in plan.pods),
        "cgroups": (_cgroup(cgroup, parts) for cgroup in plan.cgroups()),
        "unavailable": {knob.value: reason_document(reason) for knob, reason in plan.unavailable.items()},
        "ignored": [{"field": one.field, "origin": one.origin, "what": one.what} for one in plan.ignored],
        "remarks": [remark_document(one) for one in plan.remarks],
        "refusals": [
            {
                "pod": refusal.pod,
                "name": refusal.name,
                "reason_name": refusal.reason_name,
                "message": refusal.message,
                "reason": reason_document(refusal.reason),
                "by": refusal.by.value,
            }
            for refusal in plan.refusals
        ],
    }
    return {**stated, "not_modelled": list(plan.not_modelled)} if plan.not_modelled else stated


def remark_document(remark: Remark) -> Document:
    """One remark: about, origin, what."""
    return {"about": remark.about, "origin": remark.origin, "what": remark.what}


class _Whole:
    """Documents as they are."""

    def resources(self, resources: ContainerResources) -> object:
        """The request to a runtime."""
        return cri_document(resources)

    def knobs(self, knobs: Mapping[Knob, Expected]) -> object:
        """A cgroup's files with their expected values."""
        return _knobs(knobs)

    def score(self, explain: Callable[[], Reason]) -> object:
        """The reason for a container's oom_score_adj."""
        return reason_document(explain())


class _Slotting:
    """Shared documents as `Slotted`: one cached template per shared value."""

    def __init__(self) -> None:
        self._resources: dict[int, tuple[ContainerResources, Slotted]] = {}
        self._knobs = lru_cache(maxsize=_KEPT)(_knobs_template)
        self._scores = lru_cache(maxsize=_KEPT)(_score_template)

    def resources(self, resources: ContainerResources) -> object:
        """The request to a runtime."""
        if len(self._resources) >= _KEPT:
            self._resources.clear()
        # The entry keeps the value alive, so that no other object can get its id.
        found = self._resources.get(id(resources))
        if found is None:
            found = self._resources[id(resources)] = resources, Slotted(Template(cri_document(resources)))
        return found[1]

    def knobs(self, knobs: Mapping[Knob, Expected]) -> object:
        """A cgroup's files with their expected values."""
        if isinstance(knobs, Explained):
            # Without names the explanation serves one cgroup only, so a template would not pay.
            explanation = knobs.explain()
            return Slotted(self._knobs(explanation), knobs.names) if knobs.names else _knobs(explanation.knobs)
        return _knobs(knobs)

    def score(self, explain: Callable[[], Reason]) -> object:
        """The reason for a container's oom_score_adj."""
        if isinstance(explain, ExplainedScore) and explain.names:
            return Slotted(self._scores(explain.explain()), explain.names)
        return reason_document(explain())


def _knobs_template(explanation: Explanation) -> Template:
    return Template(_knobs(explanation.knobs))


def _score_template(explanation: ScoreExplanation) -> Template:
    return Template(reason_document(explanation.reason))


def _pod(pod: PlannedPod, kubelet: Kubelet | None, parts: _Whole | _Slotting) -> Document:
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "qos": pod.qos.value,
        "qos_reason": reason_document(pod.qos_reason),
        "cgroup": str(pod.cgroup.path),
        "containers": [_container(container, pod, kubelet, parts) for container in pod.containers],
        "sandbox": {
            "resources": parts.resources(pod.sandbox_resources),
            "overhead": parts.resources(pod.sandbox_overhead),
        },
    }


def _container(
    container: PlannedContainer, pod: PlannedPod, kubelet: Kubelet | None, parts: _Whole | _Slotting
) -> Document:
    found: Document = {
        "name": container.name,
        "cri": parts.resources(container.resources),
        "oom_score_adj": container.oom_score_adj,
        "oom_score_adj_reason": parts.score(container.explain_oom_score_adj),
    }
    if container.refusal:
        found["refusal"] = container.refusal
    if container.oom_score_adj_unsure:
        found["oom_score_adj_unsure"] = container.oom_score_adj_unsure
    if kubelet is not None:
        runtimes = pod.runtimes or kubelet.runtimes
        found["translation"] = translation_document(translate(container.carried_out, runtimes, kubelet.host))
    return found


def cgroup_document(cgroup: PlannedCgroup) -> Document:
    """One cgroup of a plan, with the expected value of each interface file."""
    return _cgroup(cgroup, _Whole())


def _cgroup(cgroup: PlannedCgroup, parts: _Whole | _Slotting) -> Document:
    return {
        "level": cgroup.level.value,
        "path": str(cgroup.path),
        "qos": cgroup.qos.value if cgroup.qos else None,
        "pod": cgroup.pod or None,
        "container": cgroup.container or None,
        "knobs": parts.knobs(cgroup.knobs),
    }


def _knobs(knobs: Mapping[Knob, Expected]) -> Document:
    return {knob.value: expected_document(expected) for knob, expected in knobs.items()}


def expected_document(expected: Expected) -> Document:
    """The expected value of one interface file; written is null for an unwritten file."""
    found: Document = {
        "written": None if expected.written is ABSENT else str(expected.written),
        "value": None if expected.unmodelled else str(expected.value),
        "reason": reason_document(expected.reason),
    }
    if expected.unmodelled:
        found["not_modelled"] = expected.unmodelled
    if expected.undecided:
        found["undecided"] = [str(value) for value in expected.undecided]
    if expected.inexpressible:
        found["inexpressible"] = expected.inexpressible
    if expected.unsettled:
        found["unsettled"] = expected.unsettled
    return found


def reason_document(reason: Reason) -> Document:
    """A reason chain without its empty fields."""
    found: Document = {
        "rule": reason.rule,
        "revision": reason.revision,
        "source": reason.source,
        "inputs": [{"name": one.name, "value": one.value, "origin": one.origin} for one in reason.inputs],
        "arithmetic": reason.arithmetic,
        "rounding": reason.rounding,
        "because": _chain(reason.because),
    }
    return {name: value for name, value in found.items() if value}


def _chain(reasons: Iterable[Reason]) -> list[Document]:
    return [reason_document(reason) for reason in reasons]


def subject_document(about: Subject) -> Document:
    """A subject without its empty fields; `subject_from` is the inverse."""
    fields = ((name, getattr(about, name)) for name in ("level", "name", "pod", "container", "part", "when"))
    return {name: str(value) for name, value in fields if value}


def subject_from(document: Mapping[str, Any]) -> Subject:
    """The subject of a `subject_document`. ValueError or TypeError for any other document."""
    return Subject(**{**document, "level": Level(document["level"])})


def finding_document(finding: Finding) -> Document:
    """A finding; `finding_from` is the inverse."""
    found: Document = {
        "verdict": finding.verdict.value,
        "subject": str(finding.subject),
        "about": subject_document(finding.subject),
        "cgroup": finding.cgroup,
        "knob": finding.knob,
        "set_by": finding.set_by.value,
        "expected": finding.expected,
        "observed": finding.observed,
        "why_not": finding.why_not,
        "reason": reason_document(finding.reason) if finding.reason is not None else None,
        "evidence": dict(finding.evidence),
        "lost": None if finding.lost is None else _lost(finding.lost),
    }
    return found | {"measured": True} if finding.measured else found


def _lost(loss: Loss) -> Document:
    hops = [
        {"hop": one.hop.value, "asked": list(one.asked), "held": one.held, "why_not": one.why_not} for one in loss.hops
    ]
    return {"by": loss.by, "told": loss.told, "hops": hops}


def _lost_from(document: Mapping[str, Any]) -> Loss:
    hops = (HopHeld(**{**one, "hop": Hop(one["hop"]), "asked": tuple(one["asked"])}) for one in document["hops"])
    return Loss(by=document["by"], told=document["told"], hops=tuple(hops))


def finding_from(document: Mapping[str, Any]) -> Finding:
    """The finding of a `finding_document`."""
    fields = dict(document)
    reason, lost = fields.pop("reason"), fields.pop("lost", None)
    verdict, set_by = Verdict(fields.pop("verdict")), Setter(fields.pop("set_by"))
    del fields["subject"]
    return Finding(
        subject=subject_from(fields.pop("about")),
        verdict=verdict,
        set_by=set_by,
        reason=None if reason is None else reason_from(reason),
        lost=None if lost is None else _lost_from(lost),
        **fields,
    )


def reason_from(document: Mapping[str, Any]) -> Reason:
    """The reason of a `reason_document`."""
    fields = {"rule": "", "revision": "", "source": "", **document}
    inputs = tuple(Input(**one) for one in fields.pop("inputs", ()))
    because = tuple(reason_from(one) for one in fields.pop("because", ()))
    return Reason(inputs=inputs, because=because, **fields)
