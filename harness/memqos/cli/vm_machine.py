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
from memqos.cli.setting_options import MACHINE, setting_options, settings_from
from memqos.cli.terminal import say
from memqos.errors import UnknownNameError, UsageError
from memqos.place.opening import additions_for, boot_options
from memqos.vm.boot import boot
from memqos.vm.cache.store import default_cache
from memqos.vm.kept import KeptMachine, keep, list_kept
from memqos.vm.qemu.connection import shell_arguments
from memqos.vm.qemu.machine import Machine

__all__ = ["exec_", "print_ssh_config", "shell"]

KEEP = click.Option(["--keep"], is_flag=True, help="Leave it running; `memqos vm rm` ends it.")


def of_machines(command: click.Command) -> click.Command:
    """Give a command every option that describes a machine."""
    command = setting_options(MACHINE)(command)
    command.params += [KEEP]
    return command


@of_machines
@click.command()
@click.argument("name", required=False, metavar="[PROFILE|KEPT]")
def shell(name: str | None, **given: Any) -> int:
    """Open a root shell in a fresh machine of PROFILE, or in the machine KEPT; a fresh one ends with its shell.

    Default: a fresh machine of the setting `profile`, the first if it names several.

    \b
    Examples:
      memqos vm shell
      memqos vm shell forky --topology four-zones
      memqos vm shell bookworm --cgroup v1
      memqos vm shell trixie --keep
    """
    return into(name or settings_from(given).profile[0], (), given)


@of_machines
@click.command(name="exec", context_settings={"allow_interspersed_args": False})
@click.argument("name", metavar="PROFILE|KEPT")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
def exec_(name: str, words: tuple[str, ...], **given: Any) -> int:
    """Run COMMAND as root in a fresh machine of PROFILE, or in the machine KEPT, and exit with its status.

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
    """Print the ssh_config of a kept machine, for ssh, scp or rsync. KEPT is optional if only one machine is kept.

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
            "kept machine", name or "", sorted(kept) or ["none; `memqos vm shell --keep` makes one"]
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
    if name not in profile_names():
        raise UnknownNameError.of("profile", name, [*profile_names(), *sorted(kept)])
    with fresh(name, given) as machine:
        status = subprocess.run(shell_arguments(machine.spec, words), check=False).returncode
        machine.check_alive("its shell was open")
        if given["keep"]:
            left = keep(machine)
            say(
                f"kept as {left.name}: `memqos vm shell {left.name}` enters it, `memqos vm rm {left.name}` ends it",
                err=True,
            )
    return status


@contextlib.contextmanager
def fresh(profile: str, given: Mapping[str, Any]) -> Iterator[Machine]:
    """A machine of this profile with these options."""
    settings = settings_from(given)
    options = boot_options(settings)
    logs = Path(tempfile.mkdtemp(prefix="memqos-log-"))
    machine: Machine | None = None
    try:
        with (
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
            ) as machine,
        ):
            yield machine
    finally:
        # A kept machine keeps writing its console.
        if machine is None or not machine.is_kept:
            shutil.rmtree(logs, ignore_errors=True)
