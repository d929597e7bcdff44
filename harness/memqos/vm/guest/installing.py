"""Puts what a person brings into a machine that runs, before anything is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from memqos.clock import Deadline
from memqos.errors import UsageError
from memqos.target.base import CommandResult, Target, checked
from memqos.vm.guest.facts import packages_of, versions_of
from memqos.vm.options import Brought, Choices, passes_hugetlb
from memqos.vm.qemu.machine import Machine

__all__ = ["install", "install_packages"]

CONFIG = "/etc/containerd/config.toml"
PACKAGES = "/var/tmp/memqos-packages"  # noqa: S108 - a folder of the guest's, which nobody else uses
NAMES = 'for deb; do dpkg-deb --field "$deb" Package || exit; done'
INSTALL_SECONDS = 180


def install(machine: Machine, choices: Choices) -> None:
    """Put packages, programs and configuration in their places, and start containerd again if it concerns it.

    The machine's provenance then tells each file with its hash, and the versions that are in use.
    Raises UsageError, naming the option, for what does not fit this machine: a package that does not install, a program
    that has nothing to replace, a containerd that does not come up with what it was given.
    """
    in_guest = [file for file in choices.brought if file.option in INSIDE]
    machine.provenance |= choices.provenance
    if not choices.brought:
        return
    target, deadline = machine.target, Deadline.after(INSTALL_SECONDS)
    if debs := choices.of("--runtime-deb"):
        install_packages(target, debs, deadline=deadline)
        machine.provenance["packages"] = packages_of(target, deadline=deadline)
    for option, name in (("--runtime-binary", choices.options.runtime_name), ("--containerd-binary", "containerd")):
        for file in choices.of(option):
            place = replace_program(target, name, file, deadline=deadline)
            key = option.removeprefix("--").replace("-", "_")
            machine.provenance[key] = {
                "runtime": name, "path": place, "sha256": file.sha256, "bytes": file.size
            }  # fmt: skip
    for file in choices.of("--containerd-config"):
        content = file.content()
        target.write(CONFIG, content, deadline=deadline, mode=0o644)
        machine.provenance["containerd_config"] = {**file.facts, "hugetlb": passes_hugetlb(content)}
    if any(file.option != "--runtime-binary" for file in in_guest):
        restart_containerd(target, in_guest, deadline=deadline)
    known = machine.provenance.get("versions")
    machine.provenance["versions"] = {
        **(known if isinstance(known, dict) else {}),
        **versions_of(target, deadline=deadline, strict=False),
    }


INSIDE = frozenset({"--runtime-binary", "--containerd-binary", "--containerd-config", "--runtime-deb"})
"""The options whose files go into a running machine; a kernel's are there before it runs."""


def install_packages(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> tuple[str, ...]:
    """Install Debian packages, all at once; what they depend on and is not there is not fetched, and does not matter.

    Returns the packages' names. Raises UsageError with what dpkg said if one does not install.
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
        raise UsageError(
            f"{given} cannot be installed in this machine. dpkg said:\n{_said(told)}",
            where=files[0].option,
            next_step="Name a package for the profile's Debian suite and amd64.",
        )
    return tuple(names.text.split())


def replace_program(target: Target, name: str, file: Brought, *, deadline: Deadline) -> str:
    """Put a program in the place of the one of this name, which stays beside it as NAME.dist; returns the place."""
    found = target.run(["sh", "-c", 'command -v "$1"', "sh", name], deadline=deadline)
    if found.status != 0:
        raise UsageError(f"the machine has no program '{name}' that could be replaced.", where=file.option)
    place = found.text.strip()
    checked(target.run(["mv", place, f"{place}.dist"], deadline=deadline), where=target.address)
    target.write(place, file.content(), deadline=deadline, mode=0o755)
    return place


def restart_containerd(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> None:
    """Start containerd again with what it was given; UsageError with its journal if it does not come up."""
    told = target.run(["systemctl", "restart", "containerd"], deadline=deadline)
    if told.status == 0:
        return
    journal = target.run(
        ["journalctl", "--no-pager", "--output=cat", "--unit=containerd", "--lines=12"], deadline=deadline
    )
    options = dict.fromkeys(file.option for file in files if file.option != "--runtime-binary")
    raise UsageError(
        f"containerd does not start with what it was given. Its journal ends with:\n{journal.text.strip()}",
        where=", ".join(options),
    )


def _said(told: CommandResult) -> str:
    return (told.error_text.strip() or told.text.strip())[-1500:]
