"""Which tests were to be run, and which of them came to an end."""

from __future__ import annotations

from collections.abc import Iterable, Set

from memqos.plugin.keys import plain_id

__all__ = ["Roster"]


class Roster:
    """The tests of a run, by their ids; a run that was broken off says from it how many are missing.

    `in_suites` says whether all that workers choose is ours: they send ids alone, which do not tell.
    """

    def __init__(self, *, in_suites: bool) -> None:
        self._in_suites = in_suites
        self._chosen: set[str] = set()
        self._offered: set[str] = set()
        self._ended: set[str] = set()

    @property
    def chosen(self) -> Set[str]:
        """What is to be run."""
        return self._chosen

    @property
    def has_ours(self) -> bool:
        """Whether any test of memqos was found, also one that was then deselected."""
        return bool(self._chosen or self._offered)

    def offer(self, ids: Iterable[str]) -> None:
        """Take what a worker has of ours, before anything is deselected."""
        self._offered.update(map(plain_id, ids))

    def choose(self, ids: Iterable[str]) -> None:
        """Take what is to be run of ours."""
        self._chosen.update(ids)

    def choose_by_worker(self, ids: Iterable[str]) -> None:
        """Take what a worker is to run, of which outside a suites folder only what was offered before is ours."""
        ids = {plain_id(nodeid) for nodeid in ids}
        self._chosen |= ids if self._in_suites else ids & self._offered

    def end(self, nodeid: str) -> None:
        """A test has ended, whether or not it found anything."""
        self._ended.add(nodeid)

    def missing(self, results: Set[str]) -> set[str]:
        """What was chosen, has none of these `results` and did not come to an end without one."""
        return self._chosen - self._ended - results
