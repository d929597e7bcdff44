"""What a watch waits for, put together: all of several conditions, any of them, or one after another.

    container.until(either(ended(), rises("memory.events", "high")))
    watch.until(after(victim.sees(rises("memory.events", "low")), neighbour.sees(ended())))

The parts are conditions of one container, or `sees` of several, and may be put together themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from memqos.errors import UsageError

__all__ = ["Combined", "Unfinished", "after", "both", "either"]

T = TypeVar("T")
U = TypeVar("U")


class Join(StrEnum):
    """How parts go together, in the word that stands between them."""

    ALL = "and"
    ANY = "or"
    IN_TURN = "and later"


@dataclass(frozen=True, slots=True)
class Combined(Generic[T]):
    """Several things to wait for as one."""

    join: Join
    parts: tuple[Combined[T] | T, ...]

    def each(self, make: Callable[[T], Combined[U] | U]) -> Combined[U]:
        """The same of what is made of each part."""
        parts = (part.each(make) if isinstance(part, Combined) else make(part) for part in self.parts)
        return Combined(self.join, tuple(parts))

    def leaves(self) -> Iterator[T]:
        """All that is put together in this, in its order."""
        for part in self.parts:
            if isinstance(part, Combined):
                yield from part.leaves()
            else:
                yield part

    def told(self, name: Callable[[T], str]) -> str:
        """This in words: parts that are put together differently are in brackets."""
        words = []
        for part in self.parts:
            if isinstance(part, Combined):
                text = part.told(name)
                differs = part.join is not self.join and len(part.parts) > 1 and len(self.parts) > 1
                words.append(f"({text})" if differs else text)
            else:
                words.append(name(part))
        return f" {self.join} ".join(words)


def either(*parts: Combined[T] | T) -> Combined[T]:
    """Any one of these; UsageError for none."""
    return _combined(Join.ANY, parts)


def both(*parts: Combined[T] | T) -> Combined[T]:
    """All of these, each at some time, in whatever order; UsageError for none."""
    return _combined(Join.ALL, parts)


def after(first: Combined[T] | T, *then: Combined[T] | T) -> Combined[T]:
    """Each of these in a look that came after those in which the ones before it were seen; UsageError for only one.

    What lasts, such as a counter that rose, is seen in every later look: it may have begun before.
    """
    if not then:
        raise UsageError("no condition is named to come after it.", where="after()", next_step="Name what comes then.")
    return _combined(Join.IN_TURN, (first, *then))


def _combined(join: Join, parts: tuple[Combined[T] | T, ...]) -> Combined[T]:
    if not parts:
        raise UsageError("no condition is named.", next_step="Put together at least one.")
    return Combined(join, parts)


class Unfinished(Generic[T]):
    """How much of something that is waited for was seen so far."""

    def __init__(self, combined: Combined[T]) -> None:
        self._join = combined.join
        self._parts: list[Unfinished[T] | _Leaf[T]] = [
            Unfinished(part) if isinstance(part, Combined) else _Leaf(part) for part in combined.parts
        ]

    @property
    def is_seen(self) -> bool:
        """Whether enough of its parts were seen, at whatever times."""
        some = any if self._join is Join.ANY else all
        return some(part.is_seen for part in self._parts)

    def see(self, holds: Callable[[T], bool]) -> None:
        """One look more. holds: whether it shows something; asked only for what is still waited for."""
        if self.is_seen:
            return
        waiting = [part for part in self._parts if not part.is_seen]
        for part in waiting[:1] if self._join is Join.IN_TURN else waiting:
            part.see(holds)

    def unseen(self) -> Iterator[T]:
        """What is still waited for."""
        if not self.is_seen:
            for part in self._parts:
                yield from part.unseen()


class _Leaf(Generic[T]):
    """One condition."""

    def __init__(self, what: T) -> None:
        self._what = what
        self.is_seen = False

    def see(self, holds: Callable[[T], bool]) -> None:
        """One look more."""
        self.is_seen = holds(self._what)

    def unseen(self) -> Iterator[T]:
        """Itself, until it was seen."""
        if not self.is_seen:
            yield self._what
