"""Opens places as settings choose them: the one module that knows which adapter is meant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from memqos.catalog.profiles import load_profile
from memqos.config.settings import Settings
from memqos.errors import UsageError
from memqos.place.base import Place, PlaceKey
from memqos.place.vm import opened_vm
from memqos.vm.brought import Brought
from memqos.vm.host.progress import Progress
from memqos.vm.options import boot_options, check_options, kernel_words

__all__ = ["Places", "check_places"]


class Places:
    """The places of one process, one after another or beside one another."""

    def __init__(self, settings: Settings, *, progress: Progress, builds: Mapping[str, str]) -> None:
        """builds: of each file that a person gave, the SHA-256 that it had when the run began, in whatever process."""
        self._settings = settings
        self._progress = progress
        self._builds = builds

    @contextlib.contextmanager
    def opened(self, key: PlaceKey, *, folder: Path) -> Iterator[Place]:
        """A place of this sort, whose logs go to this folder.

        Raises UsageError for what no such place can be, EnvironmentNotAbleError for what the host lacks, and
        MachineryError for what failed: DamagedOriginError if another try comes of something else.
        """
        options = boot_options(self._settings.plain)
        self._need_same_files(check_options(options).brought)
        with opened_vm(key, options, folder=folder, progress=self._progress, keepable=self._settings.keep_vm) as place:
            yield place

    def _need_same_files(self, brought: tuple[Brought, ...]) -> None:
        """Raise UsageError if a file is another one than when the run began: one run judges one build."""
        for now in brought:
            if self._builds.get(str(now.path), now.sha256) != now.sha256:
                raise UsageError(
                    f"'{now.path}' is not what it was when the run began.",
                    where=now.option,
                    next_step="Run again, and build into another file while it runs.",
                )


def check_places(settings: Settings) -> dict[str, str]:
    """Raise UsageError, before any place is opened, for what none of a run's places can be.

    Returns the SHA-256 of each file that a person gave, by its path.
    """
    choices = check_options(boot_options(settings.plain))
    for name in settings.profiles:
        kernel_words(load_profile(name), choices.options)
    return {str(file.path): file.sha256 for file in choices.brought}
