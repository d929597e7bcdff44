"""Shrinks examples that deviate, many candidates at a time.

hypothesis shrinks one candidate after another, and on a machine each takes seconds. Here a round runs all changes that
make an example one step smaller, and then combines those after which it still deviates.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.exploration import Document
from memqos.exploration.amounts import (
    Amount,
    Path,
    amounts_in,
    count_of,
    places_in,
    probes_between,
    simpler_amounts,
)
from memqos.exploration.examples import Example, containers_in, example_of

__all__ = ["Change", "Shrinker", "changes", "measure"]

Wrong = Callable[[Sequence[Example]], Sequence[bool]]
"""Whether each of these examples deviates as the first one did."""

_KEPT = frozenset(
    {"apiVersion", "kind", "metadata", "spec", "name", "image", "imagePullPolicy", "args", "hostNetwork",
     "terminationGracePeriodSeconds", "kubernetes", "config", "pods", "to", "then", "steps", "cgroupDriver",
     "failSwapOn", "failCgroupV1", "create", "numaNode", "restartPolicy", "tree", "children", "file", "anon"}
)  # fmt: skip
"""Fields that no change removes."""
_MOST = 12
_MOST_CONTAINERS = 12
"""The candidates of one round, and their containers: a machine tries these in about half a minute."""
_ROUNDS = 60
_GONE = object()


@dataclass(frozen=True, slots=True)
class Change:
    """New values of a document by path; `_GONE` removes a field or an element."""

    places: tuple[tuple[Path, Any], ...]

    def applied(self, document: Document) -> Document:
        """A copy of the document with this change; KeyError or IndexError for a missing place."""
        found = copy.deepcopy(document)
        # From the end, so that the indices of the other elements stay valid.
        for path, value in sorted(self.places, key=lambda one: [str(part).zfill(9) for part in one[0]], reverse=True):
            _put(found, path, value)
        return found

    @property
    def key(self) -> str:
        """A description by which it is recognised in another example of the same kind."""
        return repr([(path, "gone" if value is _GONE else value) for path, value in self.places])

    @property
    def of_kubelet(self) -> bool:
        """Whether it changes a kubelet's configuration."""
        return any(path[0] in {"config", "then"} for path, _ in self.places)

    def __or__(self, other: Change) -> Change:
        return Change(tuple({**dict(self.places), **dict(other.places)}.items()))


def _put(document: Any, path: Path, value: Any) -> None:
    for part in path[:-1]:
        document = document[part]
    if value is _GONE:
        del document[path[-1]]
    else:
        _ = document[path[-1]]
        document[path[-1]] = value


def measure(document: Document) -> tuple[int, int, int]:
    """The size of an example: its fields and elements, the sum of its amounts, and its text's length.

    An init container counts as one element more: an app container is simpler.
    """
    places = list(places_in(document))
    amounts = sum(abs(count_of(value)) for _, value in places if not isinstance(value, dict | list))
    init = sum(path[-2:-1] == (_INIT,) for path, _ in places)
    return len(places) + init, amounts, len(json.dumps(document))


def changes(document: Document) -> Iterator[Change]:
    """All changes that make an example smaller by one step, those with the largest effect first.

    One pod or one container alone; the kubelet without its configuration; the largest parts; init containers as app
    containers; two updates as one; plainer amounts; and last, the fields of kubelets.
    """
    by_size = sorted(places_in(document), key=lambda one: -len(json.dumps(one[1])))
    gone = [path for path, _ in by_size if path[-1] not in _KEPT and not _is_kept_list(document, path)]
    deletions = [Change(tuple((one, _GONE) for one in _mirrored(document, path))) for path in gone]
    amounts = [Change(one) for one in simpler_amounts(document)]
    # Each try with another kubelet needs its own admission, which is short once the pods are small.
    fields = [one for one in deletions if one.of_kubelet]
    top = [one for one in fields if len(one.places[0][0]) == _TOP]
    yield from _alone(document)
    yield from _at_once(top)
    yield from (one for one in deletions if not one.of_kubelet)
    yield from _turned(document)
    yield from _as_one_update(document)
    yield from (one for one in amounts if not one.of_kubelet)
    yield from _halves(top)
    yield from fields
    yield from (one for one in amounts if one.of_kubelet)


_TOP = 2
"""The length of the path of a field of a configuration: ("config", "featureGates")."""
_INIT = "initContainers"
_UPDATE = "update"


def _at_once(some: Sequence[Change]) -> Iterator[Change]:
    """All of these changes as one."""
    if len(some) > 1:
        yield Change(tuple(place for one in some for place in one.places))


def _halves(some: Sequence[Change]) -> Iterator[Change]:
    """Each half of these changes as one, then each half of the halves."""
    middle = len(some) // 2
    if middle > 1 or len(some) > _TOP:
        parts = (some[:middle], some[middle:])
        for one in parts:
            yield from _at_once(one)
        for one in parts:
            yield from _halves(one)


def _alone(document: Document) -> Iterator[Change]:
    """One of several pods alone, and in the pod of an example one of several containers alone, as an app container."""
    pods = document.get("pods", ())
    for pod in pods if len(pods) > 1 else ():
        yield Change(((("pods",), [pod]),))
    for number, manifest in enumerate(pods):
        several = containers_in(manifest)
        for place in range(len(several)) if len(several) > 1 else ():
            places: list[tuple[Path, Any]] = []
            for where in _mirrored(document, ("pods", number, "spec")):
                spec = _at(document, where)
                if len(containers_in({"spec": spec})) == len(several):
                    places.append(((*where, "containers"), [_as_app(containers_in({"spec": spec})[place])]))
                    places += [((*where, _INIT), _GONE)] * (_INIT in spec)
            yield Change(tuple(places))


def _turned(document: Document) -> Iterator[Change]:
    """Each init container as an app container, first in its pod; all of a pod at once before."""
    for number, manifest in enumerate(document.get("pods", ())):
        init = manifest["spec"].get(_INIT, [])
        chosen = [range(len(init))] if len(init) > 1 else []
        for some in [*chosen, *([place] for place in range(len(init)))]:
            places: list[tuple[Path, Any]] = []
            for where in _mirrored(document, ("pods", number, "spec")):
                spec = _at(document, where)
                if len(spec.get(_INIT, [])) == len(init):
                    apps = [_as_app(spec[_INIT][place]) for place in some]
                    places.append(((*where, "containers"), [*apps, *spec["containers"]]))
                    left = [one for place, one in enumerate(spec[_INIT]) if place not in some]
                    places.append(((*where, _INIT), left or _GONE))
            yield Change(tuple(places))


def _as_one_update(document: Document) -> Iterator[Change]:
    """Two updates of a lifecycle, one after the other, as one."""
    steps = document.get("steps", ())
    for place, (first, second) in enumerate(itertools.pairwise(steps)):
        if _UPDATE in first and _UPDATE in second:
            both = {**first[_UPDATE], **second[_UPDATE]}
            yield Change(((("steps", place, _UPDATE), both), (("steps", place + 1), _GONE)))


def _as_app(container: Document) -> Document:
    return {name: value for name, value in container.items() if name != "restartPolicy"}


def _at(document: Document, path: Path) -> Any:
    found: Any = document
    for part in path:
        found = found[part]
    return found


def _mirrored(document: Document, path: Path) -> Sequence[Path]:
    """The path and its counterpart in the manifest of a resize, as both keep the same shape."""
    if document.get("to") is None or path[:2] != ("pods", 0):
        return [path]
    return [path, ("to", *path[2:])]


def _is_kept_list(document: Document, path: Path) -> bool:
    """Whether the element must stay: the only one of its list, or part of the manifest of a resize."""
    if path[0] == "to":
        return True
    if not isinstance(path[-1], int):
        return False
    around: Any = document
    for part in path[:-1]:
        around = around[part]
    return path[-2] == "args" or (len(around) == 1 and path[-2] in {"containers", "pods", "steps", "children"})


class Shrinker:
    """Shrinks an example that deviates.

    wrong: runs examples. is_over: whether the time is over. keep: called with each smaller example that still deviates.
    tries: how many examples were run so far.
    """

    def __init__(
        self,
        wrong: Wrong,
        *,
        is_over: Callable[[], bool] = lambda: False,
        keep: Callable[[Example], None] = lambda _: None,
    ) -> None:
        self._wrong = wrong
        self._is_over = is_over
        self._keep = keep
        self._tried: set[str] = set()
        self._needed: set[str] = set()
        self._conform: dict[tuple[tuple[Path, ...], int], int] = {}
        self.tries = 0

    def shrink(self, example: Example) -> Example:
        """The smallest example found that still deviates; the given one if none is smaller."""
        document, asked_again = example.document(), False
        for _ in range(_ROUNDS):
            smaller = None if self._is_over() else self._round(document) or self._with_less(document)
            if smaller is not None:
                document, asked_again = smaller, False
                self._keep(example_of(document))
            elif self._needed and not asked_again and not self._is_over():
                # The smallest example may not need a change that a larger one needed.
                self._needed.clear()
                asked_again = True
            else:
                break
        return example_of(document)

    def _with_less(self, document: Document) -> Document | None:
        """The document with the least of an amount with which it still deviates; None if no amount can be less."""
        for amount in amounts_in(document):
            for unit in amount.units:
                if (found := self._least(document, amount, unit)) is not None:
                    return found
        return None

    def _least(self, document: Document, amount: Amount, unit: int) -> Document | None:
        """As `_with_less`, for this amount less whole units.

        It takes for granted that everything below two neighbours that conform conforms.
        """
        high, rest = divmod(amount.count, unit)
        searched = (tuple(amount.paths), unit)
        low, found = self._conform.get(searched, -1), None
        while (pairs := probes_between(low, high)) and not self._is_over():
            probes = [(count, Change(amount.put(count * unit + rest))) for pair in pairs for count in pair]
            wrong = self._which([change for _, change in probes if self._is_smaller(change, document)], document)
            least = min((count for count, change in probes if change in wrong), default=high)
            low = max([low, *(pair[-1] for pair in pairs if pair[-1] < least)])
            if least < high:
                high, found = least, Change(amount.put(least * unit + rest)).applied(document)
        self._conform[searched] = low
        return found

    def _round(self, document: Document) -> Document | None:
        """A smaller document that deviates; None if no change leaves one."""
        some: list[Change] = []
        containers = 0
        for change in changes(document):
            if self._is_smaller(change, document):
                some.append(change)
                containers += _containers(change.applied(document))
            if len(some) == _MOST or containers >= _MOST_CONTAINERS:
                containers = 0
                if (found := self._best(some, document)) is not None:
                    return found
                some = []
                if self._is_over():
                    return None
        return self._best(some, document) if some else None

    def _is_smaller(self, change: Change, document: Document) -> bool:
        """Whether the change gives a smaller valid example that was not tried yet."""
        if change.key in self._needed:
            return False
        try:
            found = change.applied(document)
        except (KeyError, IndexError):
            return False
        text = json.dumps(found, sort_keys=True)
        if text in self._tried or not measure(found) < measure(document) or not is_example(found):
            return False
        self._tried.add(text)
        return True

    def _best(self, some: Sequence[Change], document: Document) -> Document | None:
        """The smallest document that still deviates after one or several of these changes."""
        wrong = self._which(some, document)
        if not wrong:
            return None
        if len(wrong) > 1:
            together = self._which(list(_combined(wrong)), document)
            wrong += together
        return min((one.applied(document) for one in wrong), key=measure)

    def _which(self, some: Sequence[Change], document: Document) -> list[Change]:
        valid = [one for one in some if _is_valid_change(one, document)]
        if not valid:
            return []
        self.tries += len(valid)
        outcomes = self._wrong([example_of(one.applied(document)) for one in valid])
        # One try is enough for each change, until nothing else makes the example smaller.
        pairs = list(zip(valid, outcomes, strict=True))
        self._needed |= {one.key for one, is_wrong in pairs if not is_wrong}
        return [one for one, is_wrong in pairs if is_wrong]


def _containers(document: Document) -> int:
    """The number of an example's containers."""
    pods = [*document.get("pods", ()), *([document["to"]] if "to" in document else ())]
    return sum(len(containers_in(one)) for one in pods) or 1


def _combined(wrong: Sequence[Change]) -> Iterator[Change]:
    """All of these changes together, then fewer and fewer of them."""
    count = len(wrong)
    seen = set()
    while count > 1:
        found = wrong[0]
        for one in wrong[1:count]:
            if not any(_holds(path, other) for path, _ in one.places for other, _ in found.places):
                found |= one
        if found.key not in seen and found.key != wrong[0].key:
            seen.add(found.key)
            yield found
        count //= 2


def _holds(path: Path, other: Path) -> bool:
    """Whether one path equals or contains the other."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _is_valid_change(change: Change, document: Document) -> bool:
    try:
        return is_example(change.applied(document))
    except (KeyError, IndexError):
        return False


def is_example(document: Mapping[str, Any]) -> bool:
    """Whether a document is a valid example."""
    try:
        example_of(document)
    except Exception:  # noqa: BLE001 - a document with anything removed may fail in any way
        return False
    return True
