"""`memqos vm`: builds images of machines, and lists, enters and removes images and machines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from memqos.catalog.profiles import load_profile, profile_names
from memqos.catalog.topologies import topology_names
from memqos.cli import vm_machine, vm_removing
from memqos.cli.progress import shown_progress
from memqos.cli.setting_options import setting_options, settings_from
from memqos.cli.terminal import say
from memqos.cli.words import KnownVerbs
from memqos.clock import utc_now
from memqos.place.opening import additions_for
from memqos.vm.cache.entry import list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.checkpoint.stored import list_checkpoints
from memqos.vm.image.making import ensure_image
from memqos.vm.kept import list_kept

__all__ = ["command"]

HELP = """Build the images of virtual machines, enter machines, list and remove both.

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


command.add_command(vm_machine.shell)
command.add_command(vm_machine.exec_)
command.add_command(vm_machine.print_ssh_config)
command.add_command(vm_removing.rm)
command.add_command(vm_removing.prune)


@setting_options(("runtime",))
@command.command()
@click.argument("profiles", nargs=-1, metavar="[PROFILE]...")
@click.option("--all", "everything", is_flag=True, help="Build every profile's image.")
def build(profiles: tuple[str, ...], everything: bool, **given: Any) -> None:
    """Build the images of these PROFILEs, unless the cache has them; print their folders.

    Default: those of the setting `profile`. Each image also has what the runtimes of a run need, such as the Docker
    Engine. A build takes a minute or two and some 400 MiB.

    \b
    Examples:
      memqos vm build
      memqos vm build bookworm forky
      memqos vm build --all
      memqos vm build --runtime docker+runc
    """
    if profiles and everything:
        raise click.UsageError("Name profiles, or give --all.")
    settings = settings_from(given)
    names = tuple(profile_names()) if everything else profiles or settings.profile
    chosen = [load_profile(name, additions=additions_for(settings)) for name in names]
    cache = default_cache(os.environ)
    with shown_progress() as progress:
        for profile in chosen:
            say(str(ensure_image(profile, cache, progress=progress).folder))


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table; sizes in bytes, ages in seconds.")
def list_(as_json: bool) -> None:
    """List the images and checkpoints in the cache, the kept machines, and all profiles and topologies.

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
    current = vm_removing.current_images(cache)
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
    yield f"Images in {cache.images}: {len(images) or 'none; `memqos vm build` makes one'}"
    for image in images:
        state = "" if image["current"] else "  outdated"
        yield f"  {image['name']}  {vm_removing.mib(image['bytes'])}  {_age(image['age'])} old{state}"
        versions = image.get("versions")
        if isinstance(versions, dict):
            yield f"    {', '.join(f'{name} {version}' for name, version in versions.items())}"
    if checkpoints:
        yield f"Checkpoints: {len(checkpoints)}"
    for checkpoint in checkpoints:
        yield f"  {checkpoint['name']}  {vm_removing.mib(checkpoint['bytes'])}  {_age(checkpoint['age'])} old"
    if kept:
        yield f"Machines that were kept running: {len(kept)}"
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
