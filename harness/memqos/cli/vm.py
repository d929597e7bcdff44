"""`memqos vm`: builds images of machines, and lists and removes images and machines.

`memqos vm rm` removes images, checkpoints and machines by name; `prune` removes unused ones.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from memqos.catalog.profiles import addition_names, load_profile, profile_names
from memqos.catalog.topologies import topology_names
from memqos.cli.progress import shown_progress
from memqos.cli.settings import setting_options, settings_from
from memqos.cli.terminal import KnownVerbs, say
from memqos.cli.vm_shell import exec_, of_architecture, print_ssh_config, shell
from memqos.clock import utc_now
from memqos.errors import UnknownNameError
from memqos.place.opening import additions_for
from memqos.vm.cache.entry import images_of, list_images, load_image
from memqos.vm.cache.store import Cache, default_cache, disk_bytes, leftovers, remove_entry
from memqos.vm.checkpoint import MAKING_PREFIX, checkpoints_folder, list_checkpoints, useless_checkpoints
from memqos.vm.image.derived import DERIVING_PREFIX
from memqos.vm.image.making import BUILDING_PREFIX, ensure_image, image_name
from memqos.vm.kept import end_kept, list_kept
from memqos.vm.qemu.run import RUN_PREFIX

__all__ = ["command"]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Remove every image and checkpoint; kept machines stay.")
def rm(names: tuple[str, ...], everything: bool) -> None:
    """Remove images, checkpoints or kept machines by NAME.

    NAME is a profile, whose images are removed, or one image, checkpoint or kept machine.

    The next run rebuilds what it needs. Removing an image removes its checkpoints.

    \b
    Examples:
      memqos vm rm trixie
      memqos vm rm trixie-two-numa-nodes-0123456789ab
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
    """Remove images and checkpoints that no run would use.

    That includes damaged images, checkpoints without an image, and leftovers of killed runs.

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
    """The names of the profiles' images by the current recipe; empty if nothing was built yet."""
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


HELP = """Build the images of virtual machines, enter machines, list and remove them.

An image is a whole Linux system with a container runtime, built once from the host's own Debian mirror and kept in
the cache ($MEMQOS_CACHE, else ~/.cache/memqos). A checkpoint is a snapshot of a booted machine, which restores in a
second. Machines never write to either: each has its own layer, which is deleted with it.

\b
Start with:
  memqos vm build            build the default image now, instead of in the next run
  memqos vm shell            open a shell in a machine like that of a test
  memqos vm list             list images, checkpoints and kept machines, with age and size
  memqos vm prune            remove images and checkpoints that no run would use
"""

MINUTE, HOUR, DAY = 60, 3600, 86400


@click.group(name="vm", cls=KnownVerbs, help=HELP)
def command() -> None:
    """The group; its help text is HELP."""


command.add_command(shell)
command.add_command(exec_)
command.add_command(print_ssh_config)
command.add_command(rm)
command.add_command(prune)


@setting_options(("runtime", "arch"))
@command.command()
@click.argument("profiles", nargs=-1, metavar="[PROFILE]...")
@click.option("--all", "everything", is_flag=True, help="Build every profile's image.")
def build(profiles: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Build the images of these PROFILEs, and print their folders.

    Images that are in the cache are not built again.

    Default: those of the setting `profile`. Each image also has what the runtimes of a run need, such as the Docker
    Engine. A build takes a minute or two and some 400 MiB.

    \b
    Examples:
      memqos vm build
      memqos vm build bookworm forky
      memqos vm build --all
      memqos vm build trixie --arch arm64
      memqos vm build --runtime docker+runc
    """
    if profiles and everything:
        raise click.UsageError("Name profiles, or give --all.")
    settings = settings_from(given)
    named = tuple(of_architecture(name, given) for name in profiles)
    names = tuple(profile_names()) if everything else named or settings.profile
    chosen = [load_profile(name, additions=additions_for(settings)) for name in names]
    cache = default_cache(os.environ)
    with shown_progress() as progress:
        for profile in chosen:
            say(str(ensure_image(profile, cache, progress=progress).folder))


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table; sizes in bytes, ages in seconds.")
def list_(as_json: bool) -> None:
    """List images, checkpoints, kept machines, profiles, topologies.

    An "outdated" image belongs to an older recipe or to a removed profile; `memqos vm prune` removes it.

    \b
    Examples:
      memqos vm list
      memqos vm list --json
    """
    cache = default_cache(os.environ)
    facts = collected(cache)
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True))
        return
    for line in listing(facts, cache):
        say(line)


def collected(cache: Cache) -> dict[str, list[dict[str, object]] | list[str] | str]:
    """The document of `list --json`."""
    current = current_images(cache)
    images: list[dict[str, object]] = [
        {
            "name": image.name,
            "folder": str(image.folder),
            "bytes": image.used_bytes,
            "age": age_of(str(image.manifest["created"])),
            "current": any(image.name == name or image.name.startswith(f"{name}-with-") for name in current),
            **image.manifest,
        }
        for image in list_images(cache)
    ]
    checkpoints: list[dict[str, object]] = [
        {
            "name": checkpoint.name,
            "folder": str(checkpoint.folder),
            "bytes": checkpoint.used_bytes,
            "age": age_of(str(checkpoint.manifest["created"])),
            "image": checkpoint.image,
        }
        for checkpoint in list_checkpoints(cache)
    ]
    kept: list[dict[str, object]] = [
        {"name": one.name, "machine": one.machine, "age": age_of(one.since), "shell": one.shell, "pid": one.qemu}
        for one in list_kept(os.environ)
    ]
    profiles: list[dict[str, object]] = [
        {"name": profile.name, "purpose": profile.purpose, "cgroup_v1": profile.cgroup_v1.refused or "yes"}
        for profile in map(load_profile, profile_names())
    ]
    return {
        "cache": str(cache.root),
        "images": images,
        "checkpoints": checkpoints,
        "kept": kept,
        "profiles": profiles,
        "topologies": topology_names(),
    }


def listing(facts: dict[str, list[dict[str, object]] | list[str] | str], cache: Cache) -> Iterator[str]:
    """The same as text."""
    images, checkpoints, kept, profiles = (_rows(facts, name) for name in ("images", "checkpoints", "kept", "profiles"))
    yield f"Images in {cache.images}: {len(images) or 'none; `memqos vm build` builds one'}"
    for image in images:
        state = "" if image["current"] else "  outdated"
        yield f"  {image['name']}  {mib(image['bytes'])}  {_age(image['age'])} old{state}"
        versions = image.get("versions")
        if isinstance(versions, dict):
            yield f"    {', '.join(f'{name} {version}' for name, version in versions.items())}"
    if checkpoints:
        yield f"Checkpoints: {len(checkpoints)}"
    for checkpoint in checkpoints:
        yield f"  {checkpoint['name']}  {mib(checkpoint['bytes'])}  {_age(checkpoint['age'])} old"
    if kept:
        yield f"Kept machines: {len(kept)}"
    for machine in kept:
        yield f"  {machine['name']}  {machine['machine']}  {_age(machine['age'])} old"
    yield "Profiles:"
    for profile in profiles:
        legacy = "; also with cgroup v1" if profile["cgroup_v1"] == "yes" else ""
        yield f"  {profile['name']}: {profile['purpose']}{legacy}"
    yield f"Topologies: {', '.join(topology_names())}."


def _rows(facts: dict[str, list[dict[str, object]] | list[str] | str], name: str) -> list[dict[str, object]]:
    rows = facts[name]
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def age_of(created: str) -> int:
    """Seconds since a time in ISO 8601 with its zone."""
    return max(0, int((utc_now() - datetime.fromisoformat(created)).total_seconds()))


def _age(seconds: object) -> str:
    """An age in the largest unit that it has at least two of."""
    count = int(str(seconds))
    for unit, name in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes")):
        if count >= 2 * unit:
            return f"{count // unit} {name}"
    return f"{count} seconds"
