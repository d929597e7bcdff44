"""`memqos vm`: the machines' images: build, list, enter, remove."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from memqos.catalog.profiles import DEFAULT_PROFILE, load_profile, profile_names
from memqos.catalog.topologies import DEFAULT_TOPOLOGY, load_topology, topology_names
from memqos.cli.progress import shown_progress
from memqos.errors import UnknownNameError
from memqos.vm.boot import boot
from memqos.vm.cache import default_cache
from memqos.vm.entry import Image, list_images, remove_image
from memqos.vm.image import ensure_image
from memqos.vm.launch import shell_arguments
from memqos.vm.options import BootOptions

__all__ = ["command"]

HELP = """The virtual machines: build, list, enter and remove their images.

An image is a whole Linux system with a container runtime, built once from the host's own Debian mirror and kept in
the cache ($MEMQOS_CACHE, else ~/.cache/memqos). Machines never write to it: each gets a layer of its own, which is
thrown away with it.

\b
Begin with:
  memqos vm build            build the default image now, instead of in the next run
  memqos vm shell            look around in the machine that a test would get
  memqos vm list             what is in the cache, and how much room it takes
"""


@click.group(name="vm", help=HELP)
def command() -> None:
    """The group; its help text is HELP."""


@command.command()
@click.argument("profile", default=DEFAULT_PROFILE)
def build(profile: str) -> None:
    r"""Build PROFILE's image, unless the cache has it; print its folder.

    \b
    Example:
      memqos vm build trixie
    """
    cache = default_cache(os.environ)
    with shown_progress() as progress:
        image = ensure_image(load_profile(profile), cache, progress=progress)
    click.echo(str(image.folder))


@command.command()
@click.argument("profile", default=DEFAULT_PROFILE)
@click.option(
    "--topology", default=DEFAULT_TOPOLOGY, show_default=True, help="The machine's CPUs, NUMA zones and swap."
)
@click.option(
    "--runtime-binary",
    type=click.Path(path_type=Path),
    help="A file of yours that takes the OCI runtime's place; the image's own stays beside it as runc.dist.",
)
@click.argument("words", nargs=-1)
def shell(profile: str, topology: str, runtime_binary: Path | None, words: tuple[str, ...]) -> int:
    r"""Boot a fresh machine of PROFILE and open a root shell in it, or run WORDS there; it is gone afterwards.

    \b
    Examples:
      memqos vm shell
      memqos vm shell trixie --topology one-zone
      memqos vm shell trixie -- systemd-cgls --no-pager
    """
    with (
        tempfile.TemporaryDirectory(prefix="memqos-log-") as logs,
        shown_progress() as progress,
        boot(
            load_profile(profile),
            load_topology(topology),
            image_cache=default_cache(os.environ),
            log_dir=Path(logs),
            options=BootOptions(runtime_binary=runtime_binary),
            progress=progress,
        ) as machine,
    ):
        status = subprocess.run(shell_arguments(machine.spec, words), check=False).returncode
        machine.check_alive("its shell was open")
    return status


@command.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_(as_json: bool) -> None:
    """List the images in the cache, and the profiles and topologies that machines can have."""
    cache = default_cache(os.environ)
    images = list(list_images(cache))
    if as_json:
        facts = {
            "cache": str(cache.root),
            "profiles": profile_names(),
            "topologies": topology_names(),
            "images": [image_facts(image) for image in images],
        }
        click.echo(json.dumps(facts, indent=2, sort_keys=True))
        return
    click.echo(f"Images in {cache.images}: {len(images) or 'none; `memqos vm build` makes one'}")
    for image in images:
        click.echo(f"  {image.name}  {image.used_bytes >> 20} MiB  made {image.manifest['created']}")
        click.echo(f"    {', '.join(f'{name} {version}' for name, version in image.versions.items())}")
    click.echo(f"Profiles: {', '.join(profile_names())}. Topologies: {', '.join(topology_names())}.")


@command.command()
@click.argument("profile", required=False)
@click.option("--all", "everything", is_flag=True, help="Remove every profile's images.")
def rm(profile: str | None, everything: bool) -> None:
    r"""Remove PROFILE's images from the cache; the next run builds what it needs again.

    \b
    Examples:
      memqos vm rm trixie
      memqos vm rm --all
    """
    if (profile is None) != everything:
        raise click.UsageError("Name a profile, or give --all.")
    cache = default_cache(os.environ)
    known = sorted({*profile_names(), *(image.profile for image in list_images(cache))})
    if profile is not None and profile not in known:
        raise UnknownNameError.of("profile", profile, known)
    with shown_progress() as progress:
        for name in [profile] if profile else known:
            waiting = f"waiting for another process that builds the image '{name}'"
            with cache.lock(f"image-{name}", progress=progress, waiting=waiting):
                for folder in sorted(cache.images.glob(f"{name}-*")):
                    remove_image(folder)
                    click.echo(f"removed {folder}")


def image_facts(image: Image) -> Mapping[str, object]:
    """What `list --json` says of an image."""
    return {"name": image.name, "folder": str(image.folder), "bytes": image.used_bytes, **image.manifest}
