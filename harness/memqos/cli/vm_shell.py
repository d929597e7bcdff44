"""`memqos vm shell`, `exec` and `ssh-config`: into a fresh or a kept machine."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from memqos.catalog.profiles import load_profile, profile_names
from memqos.catalog.topologies import load_topology
from memqos.cli.progress import shown_progress
from memqos.cli.settings import MACHINE, setting_options, settings_from
from memqos.cli.terminal import say
from memqos.config.settings import Settings, profile_for
from memqos.errors import UnknownNameError, UsageError
from memqos.place.disk_image import booted_image
from memqos.place.opening import additions_for, boot_options, check_places, image_login
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.cloud.disk_file import disk_file
from memqos.vm.kept import KeptMachine, keep, list_kept
from memqos.vm.qemu.launch import shell_arguments
from memqos.vm.qemu.machine import Machine

__all__ = ["exec_", "of_architecture", "print_ssh_config", "shell"]

KEEP = click.Option(["--keep"], is_flag=True, help="Leave it running; `memqos vm rm` ends it.")


def of_machines(command: click.Command) -> click.Command:
    """Give a command every option that describes a machine."""
    command = setting_options(MACHINE)(command)
    command.params += [KEEP]
    return command


@setting_options(("image", "ssh-user", "ssh-key"))
@of_machines
@click.command()
@click.argument("name", required=False, metavar="[PROFILE|KEPT]")
def shell(name: str | None, **given: Any) -> int:
    """Open a root shell in a fresh machine or a kept one.

    A fresh machine of PROFILE ends with its shell.

    Default: a fresh machine of the setting `profile`, the first if it names several.

    \b
    Examples:
      memqos vm shell
      memqos vm shell forky --topology four-numa-nodes
      memqos vm shell bookworm --cgroup v1
      memqos vm shell trixie --keep
      memqos vm shell --image fedora.qcow2
    """
    settings = settings_from(given)
    if settings.image is None:
        return into(name or settings.profile[0], (), given)
    if name is not None:
        raise UsageError(f"'{name}' and --image name two machines.", next_step="Give one of them.")
    check_places(settings)
    with fresh_image(settings, settings.image, keepable=given["keep"]) as machine:
        return enter(machine, (), keep_it=given["keep"])


@of_machines
@click.command(name="exec", context_settings={"allow_interspersed_args": False})
@click.argument("name", metavar="PROFILE|KEPT")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
def exec_(name: str, words: tuple[str, ...], **given: Any) -> int:
    """Run COMMAND as root in a fresh machine or a kept one.

    The exit status is that of COMMAND.

    Options of memqos go before PROFILE; everything after it belongs to the command.

    \b
    Examples:
      memqos vm exec trixie uname -r
      memqos vm exec --topology hugepages trixie numactl --hardware
      memqos vm exec kept-abcdefgh systemd-cgls --no-pager
    """
    if words[0] == "--":
        words = words[1:]
    if not words or words[0].startswith("-"):
        raise UsageError(
            f"'{words[0] if words else '--'}' is not a command.", next_step=f"Put options of memqos before '{name}'."
        )
    return into(name, words, given)


@click.command(name="ssh-config")
@click.argument("name", required=False, metavar="[KEPT]")
def print_ssh_config(name: str | None) -> None:
    """Print the ssh_config of a kept machine.

    It is for ssh, scp or rsync. KEPT is optional if only one machine is kept.

    \b
    Example:
      memqos vm shell trixie --keep
      memqos vm ssh-config >config
      scp -F config ./my-runc memqos:/usr/local/bin/
    """
    kept = {one.name: one for one in list_kept(os.environ)}
    if name is None and len(kept) == 1:
        [name] = kept
    if name is None or name not in kept:
        raise UnknownNameError.of(
            "kept machine", name or "", sorted(kept) or ["none; `memqos vm shell --keep` creates one"]
        )
    click.echo(config_file(kept[name]).read_text(), nl=False)


def config_file(kept: KeptMachine) -> Path:
    """The ssh_config in a kept machine's shell command."""
    words = shlex.split(kept.shell)
    return Path(words[words.index("-F") + 1])


def into(name: str, words: Sequence[str], given: Mapping[str, Any]) -> int:
    """Run words, or a shell without words, in the machine of this name; the exit status."""
    kept = {one.name: one for one in list_kept(os.environ)}
    if name in kept:
        argv = shlex.split(kept[name].shell)
        if words:
            # The kept command asks for a terminal, which only a shell needs.
            argv = [word for word in argv if word != "-t"]
            argv[-1] = shlex.join(words)
        return subprocess.run(argv, check=False).returncode
    name = of_architecture(name, given)
    if name not in profile_names():
        raise UnknownNameError.of("profile", name, [*profile_names(), *sorted(kept)])
    with fresh(name, given) as machine:
        return enter(machine, words, keep_it=given["keep"])


def enter(machine: Machine, words: Sequence[str], *, keep_it: bool) -> int:
    """Run words, or a shell without words, in a fresh machine; the exit status."""
    status = subprocess.run(shell_arguments(machine.spec, words), check=False).returncode
    machine.check_alive("its shell was open")
    if keep_it:
        left = keep(machine)
        say(
            f"kept as {left.name}: `memqos vm shell {left.name}` enters it, `memqos vm rm {left.name}` ends it",
            err=True,
        )
    return status


def of_architecture(profile: str, given: Mapping[str, Any]) -> str:
    """The profile's variant for the requested architecture."""
    settings = settings_from(given)
    return profile_for(profile, settings.arch, where=settings.origins["arch"]) if settings.arch else profile


@contextlib.contextmanager
def fresh_image(settings: Settings, image: Path, *, keepable: bool) -> Iterator[Machine]:
    """A machine from a disk image."""
    machine: list[Machine] = []
    with (
        _logs_of(machine) as logs,
        shown_progress() as progress,
        booted_image(
            disk_file(image),
            settings.topology,
            image_login(settings),
            folder=logs,
            progress=progress,
            keepable=keepable,
            checkpoint=not settings.no_checkpoint,
            temporary_logs=True,
        ) as booted,
    ):
        machine.append(booted)
        yield booted


@contextlib.contextmanager
def _logs_of(machine: list[Machine]) -> Iterator[Path]:
    """A folder for a machine's logs, removed at the end unless the machine is kept and still writes to it."""
    logs = Path(tempfile.mkdtemp(prefix="memqos-log-"))
    try:
        yield logs
    finally:
        if not any(one.is_kept for one in machine):
            shutil.rmtree(logs, ignore_errors=True)


@contextlib.contextmanager
def fresh(profile: str, given: Mapping[str, Any]) -> Iterator[Machine]:
    """A machine of this profile with these options."""
    settings = settings_from(given)
    options = boot_options(settings)
    machine: list[Machine] = []
    with (
        _logs_of(machine) as logs,
        shown_progress() as progress,
        boot(
            load_profile(profile, additions=additions_for(settings)),
            load_topology(settings.topology),
            image_cache=default_cache(os.environ),
            log_dir=logs,
            options=options,
            progress=progress,
            keepable=given["keep"],
            temporary_logs=True,
        ) as booted,
    ):
        machine.append(booted)
        yield booted
