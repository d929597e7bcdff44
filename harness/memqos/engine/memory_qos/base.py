"""Shared parts of the memory-qos revisions: their cases, and the functions of a revision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Ruling, Rulings
from memqos.engine.pod.sums import amount
from memqos.engine.releases.table import Family
from memqos.model.knob import Bytes, KnobValue
from memqos.model.pod import Container, Pod, QosClass

__all__ = [
    "ContainerCase",
    "NodeCase",
    "PodCase",
    "ReservedCase",
    "Revision",
    "amount_ruling",
    "container_reason",
    "container_ruling",
    "factor_input",
    "nothing",
    "reason",
    "reserved_minimum",
    "top_input",
]

_SOURCE = "KEP-2570"


@dataclass(slots=True, kw_only=True)
class ContainerCase:
    """One container in its pod. request, limit: the container's own memory in bytes, 0 if not given."""

    kubelet: Kubelet
    qos: QosClass
    container: Container
    request: int
    limit: int

    @classmethod
    def of(cls, container: Container, qos: QosClass, kubelet: Kubelet) -> ContainerCase:
        """The case of a container in a pod of this class; pod-level resources do not count here."""
        own = container.resources
        request, limit = amount(own.requests, "memory").value, amount(own.limits, "memory").value
        return cls(kubelet=kubelet, qos=qos, container=container, request=request, limit=limit)


@dataclass(slots=True, kw_only=True)
class PodCase:
    """One pod. request, limit: memory of the whole pod with overhead, in bytes; 0 if there is none."""

    kubelet: Kubelet
    pod: Pod
    qos: QosClass
    request: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """The node. guaranteed, burstable: sums of the memory requests of all pods of the class, in bytes."""

    kubelet: Kubelet
    guaranteed: int
    burstable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedCase:
    """kube-reserved or system-reserved. memory: the reserved bytes; None if the reservation names no memory."""

    kubelet: Kubelet
    field: str
    memory: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The rules of one revision, one function per level; a knob missing from the result is not written."""

    container: Callable[[ContainerCase], Rulings]
    pod: Callable[[PodCase], Rulings]
    burstable: Callable[[NodeCase], Rulings]
    kubepods: Callable[[NodeCase], Rulings]
    reserved: Callable[[ReservedCase], Rulings]


def nothing(_case: object) -> Rulings:
    """A level that a revision does not write."""
    return {}


def reason(
    kubelet: Kubelet,
    rule: str,
    *,
    source: str,
    inputs: tuple[Input, ...] = (),
    arithmetic: str = "",
    rounding: str = "",
) -> Reason:
    """A reason of the memory-qos family; `source` is what follows "KEP-2570"."""
    return Reason(
        rule=rule,
        revision=kubelet.revisions[Family.MEMORY_QOS],
        source=f"{_SOURCE}{source}",
        inputs=inputs,
        arithmetic=arithmetic,
        rounding=rounding,
    )


def container_reason(
    case: ContainerCase, rule: str, source: str, *more: Input, arithmetic: str = "", rounding: str = ""
) -> Reason:
    """A reason of the memory-qos family about one container: its request and limit are the first inputs."""
    given, origin = case.container.resources, case.container.origin
    inputs = (
        Input(
            "requests.memory",
            str(case.request) if "memory" in given.requests else "none",
            origin.get("requests.memory", "given" if "memory" in given.requests else "not given"),
        ),
        Input(
            "limits.memory",
            str(case.limit) if "memory" in given.limits else "none",
            origin.get("limits.memory", "given" if "memory" in given.limits else "not given"),
        ),
        *more,
    )
    return reason(case.kubelet, rule, source=source, inputs=inputs, arithmetic=arithmetic, rounding=rounding)


def container_ruling(case: ContainerCase, written: KnobValue, rule: str, source: str) -> Ruling:
    """A ruling about one container without arithmetic; with ABSENT the rule says why nothing is written."""
    return Ruling(written, lambda: container_reason(case, rule, source))


def factor_input(kubelet: Kubelet) -> Input:
    """The throttling factor as a rule's input."""
    return kubelet.setting("memoryThrottlingFactor", kubelet.factor_text)


def top_input(case: ContainerCase) -> tuple[Input, ...]:
    """The node's allocatable memory as an input, if it replaces a missing limit."""
    if case.limit:
        return ()
    return (Input("allocatable memory", str(case.kubelet.allocatable["memory"].value), "capacity - reservations"),)


def amount_ruling(
    kubelet: Kubelet,
    written: int | KnobValue,
    rule: str,
    source: str,
    *inputs: Input,
    arithmetic: str = "",
) -> Ruling:
    """A ruling for an amount of bytes (or MAX) with its reason."""
    value = Bytes(written) if isinstance(written, int) else written
    return Ruling(value, lambda: reason(kubelet, rule, source=source, inputs=inputs, arithmetic=arithmetic))


def reserved_minimum(case: ReservedCase, source: str) -> Ruling | None:
    """memory.min of a reserved cgroup: its reserved memory; None without. The same in every revision."""
    if case.memory is None:
        return None
    field = f"{case.field}.memory"
    rule = "a reserved cgroup is protected up to its reservation"
    return amount_ruling(case.kubelet, case.memory, rule, source, case.kubelet.setting(field, case.memory))
