"""Puts what a person brings into a machine that runs: packages before it is saved, single files in each clone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath

from memqos.clock import Deadline
from memqos.errors import UnfitFileError
from memqos.target.base import CommandResult, Target, checked
from memqos.vm.brought import Brought
from memqos.vm.contents import Told
from memqos.vm.guest.bringing import put_trees, start_units
from memqos.vm.guest.facts import packages_of, place_of
from memqos.vm.guest.sealing import unseal_runc
from memqos.vm.guest.trial import try_program
from memqos.vm.options import Choices, passes_hugetlb
from memqos.vm.qemu.machine import Machine

__all__ = ["install", "install_packages", "put_in"]

CONFIG = "/etc/containerd/config.toml"
PACKAGES = "/var/tmp/memqos-packages"  # noqa: S108 - a folder of the guest's, which nobody else uses
NAMES = 'for deb; do dpkg-deb --field "$deb" Package || exit; done'
INSTALL_SECONDS = 180


def install(machine: Machine, choices: Choices) -> None:
    """Put packages, files and units into a machine that is to be saved, and note what is saved with it.

    The machine's provenance then tells each file with its hash, and its contents the versions of what may have been
    replaced: of a program that does not tell its version there is none.
    Raises UnfitFileError, naming the option, for a package that does not install, or that brings a program which does
    not run or a containerd which does not come up, and as `put_trees` and `start_units` do.
    """
    machine.note(choices.provenance)
    target, deadline = machine.target, Deadline.after(INSTALL_SECONDS)
    if debs := choices.of("--guest-deb"):
        install_packages(target, debs, deadline=deadline)
        machine.note({"packages": packages_of(target, deadline=deadline)})
    _install_runtimes(machine, choices)
    put_trees(target, choices.trees, deadline=deadline)
    start_units(target, choices.options.guest_units)


def _install_runtimes(machine: Machine, choices: Choices) -> None:
    debs = choices.of("--runtime-deb")
    if not debs:
        return
    target, deadline = machine.target, Deadline.after(INSTALL_SECONDS)
    install_packages(target, debs, deadline=deadline)
    machine.note({"packages": packages_of(target, deadline=deadline)})
    given = ", ".join(str(file.path) for file in debs)
    for name in ("containerd", "runc", "crun"):
        if place := place_of(target, name, deadline=deadline):
            told = try_program(
                target, place, name=name, option="--runtime-deb", given=f"{place} of {given}", deadline=deadline
            )
            _note_version(machine, name, told)
    restart_containerd(target, debs, deadline=deadline)


def put_in(machine: Machine, choices: Choices) -> None:
    """Put programs and configuration in their places in a machine that is to be used, as it boots or is restored.

    Each program is tried at once, and containerd started again if it concerns it. What is noted is as of `install`.
    Raises UnfitFileError, naming the option, for what does not fit this machine: a program that does not run or has
    nothing to replace, a containerd that does not come up with what it was given.
    """
    files = choices.late
    if not files:
        return
    target, deadline = machine.target, Deadline.after(INSTALL_SECONDS)
    if choices.of("--runtime-binary"):
        unseal_runc(target)
        machine.note({"runc": "as it is on the disk"})
    for option, name in (("--runtime-binary", choices.options.runtime_name), ("--containerd-binary", "containerd")):
        for file in choices.of(option):
            place = replace_program(target, name, file, deadline=deadline)
            told = try_program(target, place, name=name, option=option, given=str(file.path), deadline=deadline)
            _note_version(machine, name, told)
            machine.contents.brought[name] = told
            facts = {"runtime": name, "path": place, "sha256": file.sha256, "bytes": file.size, "says": asdict(told)}
            machine.note({option.removeprefix("--").replace("-", "_"): facts})
    for file in choices.of("--containerd-config"):
        content = file.content()
        target.write(CONFIG, content, deadline=deadline, mode=0o644)
        machine.contents.hugetlb = passes_hugetlb(content)
        machine.note({"containerd_config": {**file.facts, "hugetlb": machine.contents.hugetlb}})
    if any(file.option != "--runtime-binary" for file in files):
        restart_containerd(target, files, deadline=deadline)


def _note_version(machine: Machine, name: str, told: Told) -> None:
    """Keep the version of what is in this program's place now, if it is this program and tells it."""
    versions = machine.contents.versions
    versions.pop(name, None)
    if told.name == name and told.version:
        versions[name] = told.version


def install_packages(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> tuple[str, ...]:
    """Install Debian packages, all at once; what they depend on and is not there is not fetched, and does not matter.

    Returns the packages' names. Raises UnfitFileError with what dpkg said if one does not install.
    """
    checked(target.run(["mkdir", "-p", PACKAGES], deadline=deadline), where=target.address)
    places = []
    for number, file in enumerate(files):
        places.append(f"{PACKAGES}/{number}-{PurePosixPath(file.path).name}")
        target.write(places[-1], file.content(), deadline=deadline, mode=0o644)
    told = target.run(
        ["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--install", "--force-depends", "--force-confold", *places],
        deadline=deadline,
    )
    names = target.run(["sh", "-c", NAMES, "sh", *places], deadline=deadline)
    checked(target.run(["rm", "-rf", PACKAGES], deadline=deadline), where=target.address)
    if told.status != 0 or names.status != 0:
        given = ", ".join(f"'{file.path}'" for file in files)
        raise UnfitFileError(
            f"{given} cannot be installed in this machine. dpkg said:\n{_said(told)}",
            where=files[0].option,
            next_step="Name a package for the profile's Debian suite and amd64.",
        )
    return tuple(names.text.split())


def replace_program(target: Target, name: str, file: Brought, *, deadline: Deadline) -> str:
    """Put a program in the place of the one of this name, which stays beside it as NAME.dist; returns the place."""
    place = place_of(target, name, deadline=deadline)
    if not place:
        raise UnfitFileError(f"the machine has no program '{name}' that could be replaced.", where=file.option)
    checked(target.run(["mv", place, f"{place}.dist"], deadline=deadline), where=target.address)
    target.write(place, file.content(), deadline=deadline, mode=0o755)
    return place


def restart_containerd(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> None:
    """Start containerd again with what it was given; UnfitFileError with its journal if it does not come up."""
    told = target.run(["systemctl", "restart", "containerd"], deadline=deadline)
    if told.status == 0:
        _need_cri(target, files, deadline=deadline)
        return
    journal = target.run(
        ["journalctl", "--no-pager", "--output=cat", "--unit=containerd", "--lines=12"], deadline=deadline
    )
    options = dict.fromkeys(file.option for file in files if file.option != "--runtime-binary")
    raise UnfitFileError(
        f"containerd does not start with what it was given. Its journal ends with:\n{journal.text.strip()}",
        where=", ".join(options),
    )


def _need_cri(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> None:
    """Raise UnfitFileError for a containerd that runs and does not serve CRI; one that cannot be asked may well."""
    told = target.run(["ctr", "plugins", "list"], deadline=deadline)
    rows = [line.split() for line in told.text.splitlines()]
    states = [row[-1] for row in rows if len(row) >= 3 and row[1] == "cri"]  # noqa: PLR2004 - type, id, state
    if told.status != 0 or "ok" in states:
        return
    raise UnfitFileError(
        f"containerd starts with what it was given and does not serve CRI: its plugin 'cri' is "
        f"{f'in the state {states[0]!r}' if states else 'not there'}.",
        where=", ".join(dict.fromkeys(file.option for file in files if file.option != "--runtime-binary")),
        next_step="Take it out of disabled_plugins, and see its part of the configuration.",
    )


def _said(told: CommandResult) -> str:
    return (told.error_text.strip() or told.text.strip())[-1500:]
