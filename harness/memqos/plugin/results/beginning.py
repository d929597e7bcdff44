"""What a run keeps of the cases that are still to end: how many there are, of which shard, and which were begun.

Only a run that is killed leaves it: the bundle says how each of them ended.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from memqos.bundles.files import BEGUN, RUN, write
from memqos.plugin.keys import SHARD, plain_id
from memqos.plugin.results.recording import Recording

__all__ = ["Beginning"]


class Beginning:
    """Writes them beside what else is known of a run before its end; registered in the controller only."""

    def __init__(self, config: pytest.Config, recording: Recording) -> None:
        self._config = config
        self._recording = recording

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """This process has found its cases."""
        self._tell_cases()

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """A worker has found the cases; all of them find the same."""
        self._tell_cases()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A case begins, here or in a worker."""
        case, folder = plain_id(nodeid), self._recording.folder
        if folder is not None and case in self._recording.roster.chosen:
            with contextlib.suppress(OSError), (folder / BEGUN).open("a", encoding="utf-8") as stream:
                stream.write(f"{case}\n")

    def _tell_cases(self) -> None:
        folder = self._recording.folder
        if folder is not None and (chosen := self._recording.roster.chosen):
            shard = self._config.stash.get(SHARD, {})
            _add(folder / RUN, {"cases": len(chosen), **({"shard": dict(shard)} if shard else {})})


def _add(file: Path, more: dict[str, object]) -> None:
    """More of what a run is to be; a disk that does not take it is told of with the results."""
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(file.read_text(encoding="utf-8"))
        write(file, json.dumps({**said, **more}, indent=1, ensure_ascii=False) + "\n")
