"""Whether an image is what it was when it was made: asked in full only after something failed in a machine of it."""

from __future__ import annotations

import contextlib

from memqos.vm.cache.entry import Image, damaged_image_files, load_image
from memqos.vm.cache.store import Cache, remove_entry
from memqos.vm.host.progress import Progress

__all__ = ["recheck_image"]


def recheck_image(image: Image, cache: Cache, *, progress: Progress) -> bool:
    """Whether all of an image, in whose machine something failed, is as it was made; a damaged one is removed.

    It takes seconds, and says nothing unless there is damage: then one note says what it is.
    """
    damaged = damaged_image_files(image)
    if not damaged:
        return True
    progress.note(
        f"after a failure in its machine the image '{image.name}' was checked in full: "
        f"{', '.join(damaged)} changed since it was made, and it is made again."
    )
    waiting = f"waiting for another process that makes the image '{image.name}'"
    lock = f"image-{image.name if '-with-' in image.name else image.profile}"
    with cache.lock(lock, progress=progress, waiting=waiting):
        found = load_image(image.folder)
        if found is None or found.manifest == image.manifest:
            with contextlib.suppress(FileNotFoundError):
                remove_entry(image.folder)
    return False
