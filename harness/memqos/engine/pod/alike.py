"""Pods that differ only in names and places in files: their reasons are made once, with slots for names and places.

A reason quotes a pod's name, its containers' names and the lines of a manifest. If pods are otherwise equal for the
rules, only these strings differ, so the reasons of one pod with numbered slots serve all others. A slot is written with
two characters of Unicode's private use area; a pod with one of these characters elsewhere gets its own reasons.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from memqos.engine.plan import Expected, Input, Reason
from memqos.model.knob import Knob
from memqos.model.pod import Container, Pod
from memqos.model.quantity import Quantity

__all__ = [
    "Explained",
    "ExplainedScore",
    "Explanation",
    "Likeness",
    "ScoreExplanation",
    "Sharing",
    "container_likeness",
    "filled",
    "has_slot",
    "nameless",
    "names_of",
    "pod_likeness",
    "slot",
    "slots_in",
    "unexplained_files",
]

Likeness = tuple[object, ...]

_BEGIN, _END = "\ue000", "\ue001"
_SLOT = re.compile(f"{_BEGIN}([0-9]+){_END}")
_NAMES_OF_POD = ("name", "namespace", "uid", "file")
_LISTS = frozenset({"containers", "init_containers", "ephemeral_containers"})
_UNREAD_OF_CONTAINER = frozenset({"name", "image", "command", "args", "resize_policy"})
# Rules about a planned pod do not read the fields that the comparison ignores.
_READ_OF_POD = tuple(one.name for one in fields(Pod) if one.compare and one.name not in {*_NAMES_OF_POD, *_LISTS})
_READ_OF_CONTAINER = tuple(
    one.name for one in fields(Container) if one.compare and one.name not in _UNREAD_OF_CONTAINER
)


def pod_likeness(pod: Pod) -> Likeness:
    """A pod's fields that rules read, without containers; equal for pods that differ only in names and places."""
    return (*[_frozen(getattr(pod, name)) for name in _READ_OF_POD], *pod.origin)


def container_likeness(container: Container) -> Likeness:
    """The fields of a container that rules read; equal for containers that differ only in names and places."""
    return (*[_frozen(getattr(container, name)) for name in _READ_OF_CONTAINER], *container.origin)


def _frozen(value: Any) -> object:
    """A hashable value; quantities are equal only with the same spelling, since reasons quote them."""
    if isinstance(value, Quantity):
        return value.nanos, value.written
    if isinstance(value, Mapping):
        return tuple([(name, _frozen(one)) for name, one in value.items()])
    if is_dataclass(value):
        return tuple([_frozen(getattr(value, one)) for one in value.__dataclass_fields__])
    return value


@dataclass(slots=True)
class Sharing:
    """Whether a draft serves several pods, so its reasons have slots; known after all pods are drafted."""

    slots: bool = False


def has_slot(likeness: object) -> bool:
    """Whether a text among these values looks like a slot."""
    if isinstance(likeness, tuple):
        return any(map(has_slot, likeness))
    return isinstance(likeness, str) and (_BEGIN in likeness or _END in likeness)


def names_of(pod: Pod, own: int = 0) -> tuple[str, ...]:
    """The texts for the slots of a pod like this one; own: the index of the container whose names come first."""
    found = [*[getattr(pod, name) for name in _NAMES_OF_POD], *pod.origin.values()]
    for index in _order(pod, own):
        one = pod.all_containers[index]
        found += (one.name, *one.origin.values())
    return tuple(found)


def nameless(pod: Pod, own: int = 0) -> Pod:
    """The pod with slots instead of its names and places, numbered as in `names_of`."""
    slots = map(slot, itertools.count())
    named = {name: next(slots) for name in _NAMES_OF_POD}
    origin = dict(zip(pod.origin, slots, strict=False))
    containers = list(pod.all_containers)
    for index in _order(pod, own):
        one = containers[index]
        containers[index] = replace(one, name=next(slots), origin=dict(zip(one.origin, slots, strict=False)))
    init, apps = len(pod.init_containers), len(pod.containers)
    return replace(
        pod,
        **named,  # type: ignore[arg-type] # the four texts of _NAMES_OF_POD
        origin=origin,
        init_containers=tuple(containers[:init]),
        containers=tuple(containers[init : init + apps]),
        ephemeral_containers=tuple(containers[init + apps :]),
    )


def _order(pod: Pod, own: int) -> Iterator[int]:
    yield from (own, *(index for index in range(len(pod.all_containers)) if index != own))


def slot(number: int) -> str:
    """The text of a slot."""
    return f"{_BEGIN}{number}{_END}"


def slots_in(text: str) -> list[str]:
    """A text split at its slots: every second part is a slot's number."""
    return _SLOT.split(text)


def filled(reason: Reason, names: tuple[str, ...]) -> Reason:
    """The reason with these names in its slots."""
    if not names:
        return reason

    def fill(text: str) -> str:
        return _SLOT.sub(lambda found: names[int(found[1])], text) if _BEGIN in text else text

    return replace(
        reason,
        rule=fill(reason.rule),
        inputs=tuple([Input(fill(one.name), fill(one.value), fill(one.origin)) for one in reason.inputs]),
        arithmetic=fill(reason.arithmetic),
        because=tuple([filled(one, names) for one in reason.because]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The files of a cgroup with their reasons; slots are empty."""

    knobs: Mapping[Knob, Expected]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreExplanation:
    """The reason for a container's oom_score_adj; slots are empty. Equal only to itself."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class ExplainedScore:
    """Makes the reason for a container's oom_score_adj; names: as in `Explained`."""

    explain: Callable[[], ScoreExplanation]
    names: tuple[str, ...]

    def __call__(self) -> Reason:
        """The reason with its names."""
        return filled(self.explain().reason, self.names)


class Explained(Mapping[Knob, Expected]):
    """The files of one cgroup; their reasons are made on demand.

    names: the texts for the explanation's slots, empty without slots.
    """

    __slots__ = ("_knobs", "explain", "names")

    def __init__(self, knobs: Mapping[Knob, Expected], explain: Callable[[], Explanation], names: tuple[str, ...]):
        self._knobs = knobs
        self.explain = explain
        self.names = names

    @property
    def unexplained(self) -> Mapping[Knob, Expected]:
        """The same files without reasons; one shared object for cgroups planned together."""
        return self._knobs

    def __getitem__(self, knob: Knob) -> Expected:
        if knob not in self._knobs:
            raise KeyError(knob)
        expected = self.explain().knobs[knob]
        return replace(expected, reason=filled(expected.reason, self.names)) if self.names else expected

    def __iter__(self) -> Iterator[Knob]:
        return iter(self._knobs)

    def __len__(self) -> int:
        return len(self._knobs)


def unexplained_files(knobs: Mapping[Knob, Expected]) -> Mapping[Knob, Expected]:
    """The files of a cgroup, without reasons unless these exist already."""
    return knobs.unexplained if isinstance(knobs, Explained) else knobs
