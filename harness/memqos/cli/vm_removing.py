"""`memqos vm rm` removes images, checkpoints and machines by name; `prune` removes unused ones."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import click

from memqos.catalog.profiles import addition_names, load_profile, profile_names
from memqos.cli.progress import shown_progress
from memqos.cli.terminal import say
from memqos.errors import UnknownNameError
from memqos.vm.cache.entry import images_of, list_images, load_image
from memqos.vm.cache.store import Cache, default_cache, disk_bytes, leftovers, remove_entry
from memqos.vm.checkpoint.making import MAKING_PREFIX
from memqos.vm.checkpoint.stored import checkpoints_folder, list_checkpoints, useless_checkpoints
from memqos.vm.image.derived import DERIVING_PREFIX
from memqos.vm.image.making import BUILDING_PREFIX, image_name
from memqos.vm.kept import end_kept, list_kept
from memqos.vm.qemu.run import RUN_PREFIX

__all__ = ["current_images", "mib", "prune", "rm"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Remove every image and checkpoint; kept machines stay.")
def rm(names: tuple[str, ...], everything: bool) -> None:
    """Remove a profile's images, one image or checkpoint, or a kept machine, by NAME.

    The next run rebuilds what it needs. Removing an image removes its checkpoints.

    \b
    Examples:
      memqos vm rm trixie
      memqos vm rm trixie-two-zones-0123456789ab
      memqos vm rm kept-abcdefgh
      memqos vm rm --all
    """
    if bool(names) == everything:
        raise click.UsageError("Name a profile or anything that `memqos vm list` lists, or give --all.")
    cache = default_cache(os.environ)
    kept = {one.name for one in list_kept(os.environ)}
    images = {path.name for path in cache.images.iterdir() if not path.name.startswith(".")}
    checkpoints = {path.name for path in checkpoints_folder(cache).iterdir() if not path.name.startswith(".")}
    known = sorted({*profile_names(), *images, *checkpoints, *kept})
    for name in names:
        if name not in known:
            raise UnknownNameError.of("profile, image, checkpoint or kept machine", name, known)
    for name in names or sorted(images | checkpoints):
        if name in kept:
            end_kept(name, os.environ)
            say(f"ended {name}")
        elif name in checkpoints:
            _remove(checkpoints_folder(cache) / name)
        else:
            folders = [cache.images / name] if name in images else images_of(cache, name)
            for folder in folders:
                _remove_image(cache, folder)


@click.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def prune(dry_run: bool) -> None:
    """Remove unused data: outdated and damaged images, checkpoints without image, and leftovers of killed runs.

    Images of the present recipe and their checkpoints stay, and so does everything that a process is using. If
    checkpoints take more than 12 GiB together, the least recently used are removed too. Leftovers are the machines and
    unfinished builds of killed runs.

    \b
    Examples:
      memqos vm prune --dry-run
      memqos vm prune
    """
    cache = default_cache(os.environ)
    current = current_images(cache)
    images = [
        folder
        for folder in sorted(cache.images.iterdir())
        if not folder.name.startswith(".")
        and (folder.name.partition("-with-")[0] not in current or load_image(folder) is None)
    ]
    staying = frozenset(image.name for image in list_images(cache)) - {folder.name for folder in images}
    checkpoints = useless_checkpoints(cache, images=staying)
    rest = [
        *leftovers(cache.images, BUILDING_PREFIX, DERIVING_PREFIX),
        *leftovers(checkpoints_folder(cache), MAKING_PREFIX),
        *leftovers(cache.folder("machines"), RUN_PREFIX),
    ]
    if dry_run:
        for folder in (*checkpoints, *images, *rest):
            say(f"would remove {folder}  {mib(_used(folder))}")
        return
    # Checkpoints first: removing an image removes its checkpoints.
    for folder in checkpoints:
        _remove(folder)
    for folder in images:
        _remove_image(cache, folder)
    for folder in rest:
        used = _used(folder)
        shutil.rmtree(folder, ignore_errors=True)
        say(f"removed {folder}  {mib(used)}")


def current_images(cache: Cache) -> set[str]:
    """The names of the profiles' images by the present recipe; none if nothing was built yet."""
    if not any(cache.images.iterdir()):
        return set()
    names = addition_names()
    several = [some for number in range(len(names) + 1) for some in itertools.combinations(names, number)]
    return {
        image_name(load_profile(name, additions=additions), cache) for name in profile_names() for additions in several
    }


def mib(count: object) -> str:
    """A number of bytes as text."""
    return f"{int(str(count)) >> 20} MiB"


def _remove_image(cache: Cache, folder: Path) -> None:
    """Remove an image and the checkpoints that need it, after waiting for a running build of it."""
    profile = folder.name.rpartition("-with-")[0] or folder.name
    lock = f"image-{profile.rpartition('-')[0]}"
    image = load_image(folder)
    with shown_progress() as progress:
        waiting = f"waiting for another process that is building the image '{folder.name}'"
        with cache.lock(lock, progress=progress, waiting=waiting):
            _remove(folder)
    for checkpoint in list_checkpoints(cache):
        if image is not None and checkpoint.image == image.name:
            _remove(checkpoint.folder)


def _remove(folder: Path) -> None:
    if folder.exists():
        used = _used(folder)
        remove_entry(folder)
        say(f"removed {folder}  {mib(used)}")


def _used(folder: Path) -> int:
    """The disk space of a folder's files, in bytes; 0 if it was just removed."""
    try:
        return disk_bytes(folder)
    except FileNotFoundError:
        return 0
