"""Which hop lost a value: for a container's file that deviates, looks at every hop from the request to the file.

Runs only after a deviation, while the container still exists. An error while looking is reported with the deviation,
and never in its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memqos.clock import Deadline
from memqos.enactor.base import AdmittedPod, RefusedRequest
from memqos.engine.answer.finding import (
    HELD,
    Finding,
    Hop,
    Loss,
    Setter,
    Verdict,
    changed_later,
    first_lost,
    subject_of,
    unseen_loss,
)
from memqos.engine.answer.verdict import OOM_SCORE_ADJ
from memqos.engine.kubelet import Kubelet
from memqos.engine.translate.hops import UNIT_PROPERTIES, ShownHops, held_at
from memqos.engine.translate.requested import RequestedContainer, requested, requested_again
from memqos.engine.translate.runtimes import BUNDLES
from memqos.errors import DeadlineError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.node.pods.refusal import refused_finding
from memqos.runtime.base import ContainerHandle, Runtime
from memqos.target.base import Target

__all__ = ["HopTracer"]

LOOKING_SECONDS = 20.0
"""For one container: a few files, one request to the daemon and one to systemd."""

_AT_MOST = "1000000"
"""The most bytes read of a file: config.json has some ten thousand, and a runtime's log may be arbitrarily long."""

_GONE = "not-found"
"""What systemd reports for a unit that it does not know (any more)."""

_KNOBS = frozenset({*(knob.value for knob in Knob), OOM_SCORE_ADJ})


@dataclass(frozen=True, slots=True)
class _Looked:
    """The observations for one container. documents: what the hops show, by the name of the file to keep it in."""

    container: RequestedContainer
    shown: ShownHops
    documents: Mapping[str, str]


class HopTracer:
    """Looks at the hops of containers on one node. kubelet: the node's; only its runtime settings are used."""

    def __init__(self, *, runtime: Runtime, target: Target, kubelet: Kubelet) -> None:
        self._runtime = runtime
        self._target = target
        self._kubelet = kubelet
        self._gave_up = ""

    def traced(self, findings: Iterable[Finding], pods: Iterable[AdmittedPod]) -> tuple[Finding, ...]:
        """The findings; those that deviate in a container's file name the hop that lost the value."""
        findings, pods = tuple(findings), tuple(pods)
        if not any(map(_is_a_containers, findings)):
            return findings
        looked: dict[str, _Looked | str] = {}
        return tuple(
            dataclasses.replace(one, lost=self._loss(one, pods, looked)) if _is_a_containers(one) else one
            for one in findings
        )

    def refusal(self, pod: AdmittedPod, refused: RefusedRequest) -> Finding:
        """The findings from the runtime's refusal of a request for this pod."""
        before = pod.requested.get(refused.container, ()) if refused.update else ()
        [planned] = [one for one in pod.planned.containers if one.name == refused.container]
        return refused_finding(
            refused.error,
            self._asked((*before, refused.request)),
            subject=subject_of(planned.cgroup, pod.planned),
            update=refused.update,
        )

    def _loss(self, finding: Finding, pods: Sequence[AdmittedPod], looked: dict[str, _Looked | str]) -> Loss | None:
        found = self._container_of(finding.cgroup, pods)
        if found is None:
            return None
        pod, handle = found
        if handle.id not in looked:
            looked[handle.id] = self._looked_or_why_not(pod, handle)
        seen = looked[handle.id]
        if isinstance(seen, str):
            return unseen_loss(seen)
        hops = held_at(seen.container, finding.knob, seen.shown)
        if held := finding.evidence.get(HELD):
            loss = changed_later(hops, knob=finding.knob, held=held, observed=finding.observed)
        else:
            own_bundle = self._kubelet.runtimes.cri == BUNDLES
            loss = first_lost(hops, knob=finding.knob, observed=finding.observed, own_bundle=own_bundle)
        return dataclasses.replace(loss, documents=seen.documents)

    def _container_of(self, cgroup: str, pods: Sequence[AdmittedPod]) -> tuple[AdmittedPod, ContainerHandle] | None:
        layout = self._kubelet.layout
        for pod in pods:
            parent = pod.planned.cgroup.path
            for handle in pod.containers.values():
                if cgroup in {str(layout.container(parent, handle.id)), str(layout.whole(parent, handle.id))}:
                    return pod, handle
        return None

    def _looked_or_why_not(self, pod: AdmittedPod, handle: ContainerHandle) -> _Looked | str:
        if self._gave_up:
            return self._gave_up
        try:
            return self._look(pod, handle)
        except Exception as error:  # noqa: BLE001 - the deviation remains, whatever fails in tracing
            if isinstance(error, DeadlineError):
                self._gave_up = str(error)
            return str(error) or type(error).__name__

    def _look(self, pod: AdmittedPod, handle: ContainerHandle) -> _Looked:
        deadline = Deadline.after(LOOKING_SECONDS)
        planned = (one.resources for one in pod.planned.containers if one.name == handle.name)
        # For a container that other programs created, only the plan is known.
        container = self._asked(pod.requested.get(handle.name) or tuple(planned))
        traces = self._runtime.traces(handle, deadline=deadline)
        texts = {
            Hop.SPEC: "" if traces.spec is None else json.dumps(traces.spec, indent=1),
            Hop.CONFIG: self._first(traces.config, deadline),
            Hop.STATE: self._first(traces.state, deadline),
        }
        documents, missing = _parsed(texts)
        unit = self._kubelet.layout.whole(pod.planned.cgroup.path, handle.id).name
        properties, why_not = self._properties(unit, deadline) if unit.endswith(".scope") else ({}, "it has none")
        gone = frozenset({Hop.UNIT} if properties.get("LoadState") == _GONE else ())
        if why_not:
            missing[Hop.UNIT], properties = why_not, {}
        else:
            documents[Hop.UNIT] = properties
        said = "".join(f"{name}={value}\n" for name, value in properties.items())
        kept = {
            "spec.json": texts[Hop.SPEC],
            "config.json": texts[Hop.CONFIG],
            "state.json": texts[Hop.STATE],
            "unit.txt": said,
            "runtime.log": self._first(traces.log, deadline, program="tail"),
        }
        stem = f"{handle.name}-{handle.id[:12]}"
        return _Looked(
            container,
            ShownHops(documents=documents, missing=missing, gone=gone),
            {f"{stem}.{name}": text for name, text in kept.items() if text},
        )

    def _asked(self, requests: Sequence[ContainerResources]) -> RequestedContainer:
        container = requested(requests[0], self._kubelet.runtimes, self._kubelet.host)
        for request in requests[1:] if container.held else ():
            container = requested_again(container, request)
        return container

    def _first(self, places: Iterable[str], deadline: Deadline, *, program: str = "head") -> str:
        """The text of the first of these files that exists; "" if none does."""
        for place in places:
            result = self._target.run([program, "-c", _AT_MOST, "--", place], deadline=deadline)
            if not result.status:
                return result.text
        return ""

    def _properties(self, unit: str, deadline: Deadline) -> tuple[dict[str, str], str]:
        """A unit's properties as systemctl prints them, and why they are missing, "" if the unit is loaded."""
        names = ",".join(("LoadState", *UNIT_PROPERTIES))
        result = self._target.run(["systemctl", "show", f"--property={names}", "--", unit], deadline=deadline)
        if result.status:
            return {}, result.error_text.strip() or f"systemctl ended with {result.status}"
        found = dict(line.split("=", 1) for line in result.text.splitlines() if "=" in line)
        state = found.get("LoadState", "")
        return found, "" if state == "loaded" else f"systemd reports {unit} as {state or 'unknown'}"


def _parsed(texts: Mapping[Hop, str]) -> tuple[dict[Hop, object], dict[Hop, str]]:
    documents: dict[Hop, object] = {}
    missing: dict[Hop, str] = {}
    for hop, text in texts.items():
        if not text:
            missing[hop] = "not found"
            continue
        try:
            documents[hop] = json.loads(text)
        except (ValueError, RecursionError) as error:
            missing[hop] = f"it does not parse: {error}"
    return documents, missing


def _is_a_containers(finding: Finding) -> bool:
    """Whether it is a deviation of a container's file, or of its first process's score."""
    made = finding.verdict is Verdict.DEVIATES and finding.set_by is Setter.RUNTIME
    return made and finding.lost is None and finding.knob in _KNOBS
