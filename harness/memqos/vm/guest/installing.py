"""Installs what the user brings into a running machine: packages before it is saved, single files in each clone."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.errors import DeadlineError, UnfitFileError
from memqos.target.base import CommandResult, Target, checked, version_in
from memqos.vm.guest.sealed_runc import unseal_runc
from memqos.vm.guest.view import packages_of, place_of
from memqos.vm.kernel_tree import KernelTree
from memqos.vm.options import BootOptions, Brought, Choices, passes_hugetlb
from memqos.vm.profile import ReportedProgram
from memqos.vm.qemu.machine import Machine
from memqos.vm.trees import BroughtTree

__all__ = [
    "LOOK",
    "PACKAGES",
    "install",
    "install_packages",
    "program_place",
    "put_in",
    "put_trees",
    "start_units",
    "try_program",
]

START_SECONDS = 120.0
"""How long a unit may take to start; systemd's own timeout is 90 s, unless the unit says otherwise."""

SETTLING_SECONDS = 2.0
"""How long it must stay up after that: a daemon with a faulty configuration ends within this time."""

JOURNAL_LINES = "20"

LOOK = """\
import json, os, subprocess, sys
faults = []
for place, is_folder in json.load(sys.stdin):
    folder, name = os.path.split(place)
    real = os.path.join(os.path.realpath(folder), name)
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        faults.append([place, above + " is not a folder"])
    elif not os.path.lexists(real):
        continue
    elif is_folder:
        if not os.path.isdir(real):
            faults.append([place, "it exists and is not a folder"])
    elif os.path.islink(real) or not os.path.isfile(real):
        kind = "a folder" if os.path.isdir(real) and not os.path.islink(real) else "a link or a special file"
        faults.append([place, "it exists and is " + kind])
    elif real in sys.argv[1:]:
        faults.append([place, "the machine needs its own"])
    else:
        for one in {real, place}:
            told = subprocess.run(["dpkg", "--search", one], capture_output=True, text=True)
            if told.returncode == 0:
                faults.append([place, "it belongs to the package " + told.stdout.partition(":")[0]])
                break
json.dump(faults, sys.stdout)
"""
"""Reads a list of paths with whether each is a folder, and prints those that cannot be created, and why."""

OWN = (
    "/etc/containerd/config.toml", "/etc/fstab", "/etc/group", "/etc/hostname", "/etc/hosts", "/etc/machine-id",
    "/etc/passwd", "/etc/shadow", "/root/.ssh/authorized_keys",
)  # fmt: skip
"""Files without a package that the machine needs, or that have an option of their own."""


def put_trees(target: Target, trees: Sequence[BroughtTree], *, deadline: Deadline) -> None:
    """Copy each tree to its destination, in order.

    Files of packages and of memqos are not replaced: --runtime-binary, --containerd-binary and --runtime-deb are for
    those. Raises UnfitFileError, naming the option, for a destination that a tree cannot have, and for tar's errors.
    """
    for tree in trees:
        asked = json.dumps(list(tree.places())).encode()
        argv = ["python3", "-c", LOOK, *OWN]
        faults = json.loads(checked(target.run(argv, deadline=deadline, stdin=asked), where=target.address).text)
        if faults:
            place, why = faults[0]
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            raise UnfitFileError(
                f"'{tree.path}' cannot be copied to {place} in this machine: {why}{more}.",
                where=tree.option,
                next_step="Choose another DST; replace files of packages with --runtime-binary, "
                "--containerd-binary, --containerd-config, --runtime-deb or --guest-deb.",
            )
        told = target.run(
            ["tar", "-x", "-C", "/", "--no-overwrite-dir", "--keep-directory-symlink", "--same-owner", "-p"],
            deadline=deadline,
            stdin=tree.archive(),
        )
        if told.status != 0:
            said = told.error_text.strip()[-600:]
            raise UnfitFileError(f"'{tree.path}' cannot be copied into this machine: {said}", where=tree.option)


def start_units(target: Target, units: Sequence[str]) -> None:
    """Enable and start these units, in order, and check that they stay up.

    Raises UnfitFileError with the end of its journal for one that is missing, does not start, or fails right after.
    """
    if not units:
        return
    deadline = Deadline.after(START_SECONDS)
    checked(target.run(["systemctl", "daemon-reload"], deadline=deadline), where=target.address)
    for unit in units:
        deadline = Deadline.after(START_SECONDS)
        for verb in ("enable", "start"):
            try:
                told = target.run(["systemctl", verb, unit], deadline=deadline)
            except DeadlineError:
                raise _fault(target, unit, f"it did not {verb} within {START_SECONDS:.0f} s") from None
            if told.status != 0:
                raise _fault(target, unit, f"it cannot be {verb}{'d' if verb == 'enable' else 'ed'}", told.error_text)
    SYSTEM_CLOCK.sleep(SETTLING_SECONDS)
    for unit in units:
        state = target.run(["systemctl", "show", "--value", "--property=ActiveState", unit], deadline=deadline)
        if (word := state.text.strip()) not in {"active", "inactive"}:
            raise _fault(target, unit, f"{SETTLING_SECONDS:.0f} s after its start it is {word or 'missing'}")


def _fault(target: Target, unit: str, what: str, said: str = "") -> UnfitFileError:
    journal = target.run(
        ["journalctl", "--no-pager", "--output=cat", f"--unit={unit}", f"--lines={JOURNAL_LINES}"],
        deadline=Deadline.after(START_SECONDS),
    ).text.strip()
    return UnfitFileError(
        f"the unit {unit} does not run in this machine: {what}. {said.strip()}".rstrip()
        + (f"\nIts journal ends with:\n{journal}" if journal else ""),
        where="--guest-unit",
        next_step="Fix it, or add what it needs with --guest-file and --guest-deb.",
    )


QUESTIONS = {"containerd": ("--version",)}
"""The arguments that make a program print its version: containerd serves with any other word."""

QUESTIONS_OF_OCI_RUNTIMES = ("--version", "features")

PATIENCE_SECONDS = 20
"""How long it may take to answer; a tenth of a second is usual, also under software emulation."""

NOT_FOUND = frozenset({126, 127})
"""The statuses with which a shell, env and the dynamic loader report that nothing can be run."""

NO_SUCH_FILE = "No such file or directory"

TRY = """\
import json, os, signal, subprocess, sys, tempfile, time
place, patience, words = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
told, running = {}, {}
with open(place, "rb") as program:
    begins = program.readline(256).decode(errors="backslashreplace")
for word in words:
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    try:
        running[word] = out, err, subprocess.Popen(
            [place, word], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd="/", start_new_session=True
        )
    except OSError as error:
        told[word] = {"error": os.strerror(error.errno), "begins": begins}
end = time.monotonic() + patience
for word, (out, err, process) in running.items():
    try:
        status = process.wait(max(0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        status = None
    texts = {}
    for name, file in ("out", out), ("err", err):
        file.seek(0)
        texts[name] = file.read(65536).decode(errors="backslashreplace")
    told[word] = {"status": status, **texts}
json.dump(told, sys.stdout)
"""
"""Starts the program directly and not through a shell, which would run a rejected file as a script."""

NAME = r"[\w.-]{1,40}"

ANNOTATIONS = {"org.opencontainers.runc.version": "runc", "run.oci.crun.version": "crun"}
"""Where a runtime's features have its version, and which runtime that is."""


def try_program(
    target: Target, place: str, *, name: str, option: str, given: str, deadline: Deadline
) -> ReportedProgram:
    """Query the program at this path of the machine for its identity.

    name: of the program that it replaces. option, given: the option, and the file's path on the host. Raises
    UnfitFileError for a program that does not exit by itself for any argument: its interpreter or its libraries are
    missing, the kernel or the CPU cannot run it, or it hangs. One that exits with an error does run, but its version is
    unknown.
    """
    words = QUESTIONS.get(name, QUESTIONS_OF_OCI_RUNTIMES)
    argv = ["python3", "-c", TRY, place, str(PATIENCE_SECONDS), *words]
    answers = json.loads(checked(target.run(argv, deadline=deadline), where=target.address).text)
    faults = [_fault_of_answer(answers[word]) for word in words]
    if all(faults):
        raise UnfitFileError(
            f"'{given}' does not run in the machine: {faults[0]}.",
            where=option,
            next_step="Give a static program for the machine's CPU, or one whose interpreter and libraries are in the "
            f"machine. A wrapper of {option} calls the image's program as {name}.dist: {name} is the wrapper.",
        )
    named, annotated = _named(answers["--version"]), _annotated(answers.get("features", {}))
    return named if named.version else annotated or named


def _fault_of_answer(answer: Mapping[str, Any]) -> str:
    """Why this was no answer, not even a refusal; "" if it was one."""
    if "error" in answer:
        if answer["error"] != NO_SUCH_FILE:
            return f"the kernel reports '{answer['error']}'"
        named = f"'{_plain(answer['begins'])}' names" if answer["begins"].startswith("#!") else "it names"
        return f"the interpreter or dynamic loader that {named} is missing"
    status, said = answer["status"], _plain(answer["err"].strip() or answer["out"].strip())[-300:]
    if status is None:
        return f"it did not print its version within {PATIENCE_SECONDS} s"
    if status < 0:
        return f"it was killed by signal {-status}{f' and said: {said}' if said else ''}"
    return f"{said or 'it found nothing to run'} (status {status})" if status in NOT_FOUND else ""


def _plain(text: str) -> str:
    """A program's output, made safe for a terminal; the end of a line becomes a space."""
    line = text.removesuffix("\n").replace("\n", " ")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)


def _named(answer: Mapping[str, Any]) -> ReportedProgram:
    """The name and version in the first line, such as "runc version 1.1.15" or "crun version UNKNOWN"."""
    text = str(answer["out"]).lstrip() if answer.get("status") == 0 else ""
    version = version_in(text) or ""
    name = re.match(NAME, text, re.ASCII) if version else re.match(rf"{NAME}(?= version\b)", text, re.ASCII)
    return ReportedProgram(name=name[0] if name else "", version=version)


def _annotated(answer: Mapping[str, Any]) -> ReportedProgram | None:
    """The identity in an OCI runtime's features; None without a version."""
    try:
        annotations = json.loads(answer["out"])["annotations"]
        for key, name in ANNOTATIONS.items():
            if key in annotations:
                return ReportedProgram(name=name, version=version_in(str(annotations[key])) or "")
    except (ValueError, KeyError, TypeError):
        return None
    return None


CONFIG = "/etc/containerd/config.toml"
PACKAGES = "/var/tmp/memqos-packages"  # noqa: S108 - a folder of the guest's that nothing else uses
NAMES = 'for deb; do dpkg-deb --field "$deb" Package || exit; done'
INSTALL_SECONDS = 180


def install(machine: Machine, choices: Choices) -> None:
    """Install packages, files and units in a machine that is to be saved, and record what is saved with it.

    The machine's provenance then has each file with its hash, and its contents have the versions of what may have been
    replaced; a program that does not report its version has none. Raises UnfitFileError, naming the option, for a
    package that does not install, that brings a program which does not run or a containerd which does not come up, and
    as `put_trees` and `start_units` do.
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
    """Install programs and configuration in a machine that is to be used, after it was booted or restored.

    Each program is tried at once, and containerd is restarted if affected. Records as `install` does. Raises
    UnfitFileError, naming the option, for what does not fit this machine: a program that does not run or has nothing to
    replace, a containerd that does not come up with the given file.
    """
    files = choices.late
    target, deadline = machine.target, Deadline.after(INSTALL_SECONDS)
    if any(file.name == "runc" for file in choices.runtimes):
        unseal_runc(target)
        machine.note({"runc": "as it is on the disk"})
    _put_programs(machine, choices, deadline=deadline)
    for file in choices.of("--containerd-config"):
        content = file.content()
        target.write(CONFIG, content, deadline=deadline, mode=0o644)
        machine.contents.hugetlb = passes_hugetlb(content)
        machine.note({"containerd_config": {**file.facts, "hugetlb": machine.contents.hugetlb}})
    _tell_engines(machine, choices.options, deadline=deadline)
    if _told_containerd(machine, choices.options.handlers, deadline=deadline) or any(not file.name for file in files):
        restart_containerd(target, [file for file in files if not file.name] or files, deadline=deadline)


def _put_programs(machine: Machine, choices: Choices, *, deadline: Deadline) -> None:
    """Install OCI runtimes and containerd, try them, and record what they report of themselves."""
    target, noted = machine.target, list[dict[str, object]]()
    for name, file in (
        *((file.name, file) for file in choices.runtimes),
        *(("containerd", file) for file in choices.of("--containerd-binary")),
    ):
        place = put_program(target, name, file, deadline=deadline)
        told = try_program(target, place, name=name, option=file.option, given=str(file.path), deadline=deadline)
        _note_version(machine, name, told)
        machine.contents.brought[name] = told
        facts = {"runtime": name, "path": place, "sha256": file.sha256, "bytes": file.size, "says": asdict(told)}
        if file.name:
            machine.contents.places[name] = place
            noted.append(facts)
        else:
            machine.note({"containerd_binary": facts})
    if noted:
        machine.note({"runtime_binary": noted[0], **({"runtime_binaries": noted} if len(noted) > 1 else {})})


CRI_PLUGINS = {"2": "io.containerd.grpc.v1.cri", "3": "io.containerd.cri.v1.runtime"}
"""The table of containerd's configuration that has its handlers, by the version of the file."""

HANDLER = """
[plugins."{plugin}".containerd.runtimes."{handler}"]
  runtime_type = "io.containerd.runc.v2"
  [plugins."{plugin}".containerd.runtimes."{handler}".options]
    BinaryName = "{program}"
    SystemdCgroup = {systemd}
"""


def _told_containerd(machine: Machine, names: Sequence[str], *, deadline: Deadline) -> bool:
    """Add the missing handlers of each runtime with each cgroup driver, NAME and NAME-cgroupfs, to containerd.

    Returns whether its configuration changed. A runtime that the machine does not have gets none.
    """
    target, more = machine.target, ""
    if not names:
        return False
    config = (target.read(CONFIG, deadline=deadline) or b"").decode()
    document = tomllib.loads(config)
    plugin = CRI_PLUGINS.get(str(document.get("version", 2)), CRI_PLUGINS["2"])
    known = document.get("plugins", {}).get(plugin, {}).get("containerd", {}).get("runtimes", {})
    for name in names:
        if program := program_place(machine, name, deadline=deadline):
            for handler, systemd in ((name, "true"), (f"{name}-cgroupfs", "false")):
                if handler not in known:
                    more += HANDLER.format(plugin=plugin, handler=handler, program=program, systemd=systemd)
    if more:
        target.write(CONFIG, f"{config.rstrip()}\n{more}".encode(), deadline=deadline, mode=0o644)
    return bool(more)


DOCKER_UNIT = "/etc/systemd/system/memqos-docker@.service"
ADDED = "--add-runtime="
PODMAN_CONFIG = "/etc/containers/containers.conf"


def _tell_engines(machine: Machine, options: BootOptions, *, deadline: Deadline) -> None:
    """Configure Docker and Podman, which are not running yet, with the runtimes that they do not know."""
    target = machine.target
    docker, podman = (
        {name: place for name in names if (place := program_place(machine, name, deadline=deadline))}
        for names in (options.docker_runtimes, options.podman_runtimes)
    )
    if docker:
        more = "".join(f"{ADDED}{name}={place} " for name, place in docker.items())
        unit = (target.read(DOCKER_UNIT, deadline=deadline) or b"").decode().replace(ADDED, f"{more}{ADDED}", 1)
        target.write(DOCKER_UNIT, unit.encode(), deadline=deadline, mode=0o644)
        checked(target.run(["systemctl", "daemon-reload"], deadline=deadline), where=target.address)
    if podman:
        rows = "".join(f"{json.dumps(name)} = [{json.dumps(place)}]\n" for name, place in podman.items())
        target.write(PODMAN_CONFIG, f"[engine.runtimes]\n{rows}".encode(), deadline=deadline, mode=0o644)


def program_place(machine: Machine, name: str, *, deadline: Deadline) -> str:
    """The path of an OCI runtime in the machine, "" if it has none; a brought one takes precedence."""
    return machine.contents.places.get(name) or place_of(machine.target, name, deadline=deadline)


def _note_version(machine: Machine, name: str, told: ReportedProgram) -> None:
    """Record the version of the program now in this place, if it is this program and reports it."""
    versions = machine.contents.versions
    versions.pop(name, None)
    if told.name == name and told.version:
        versions[name] = told.version


def install_packages(target: Target, files: Sequence[Brought | KernelTree], *, deadline: Deadline) -> tuple[str, ...]:
    """Install Debian packages, all at once; missing dependencies are neither fetched nor an error.

    Returns the packages' names. Raises UnfitFileError with dpkg's output if one does not install.
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
            next_step="Name a package for the profile's Debian suite and architecture.",
        )
    return tuple(names.text.split())


OWN_PLACE = "/usr/lib/memqos/runtimes"
"""The folder of OCI runtimes that the image does not have: no name in it collides with another program."""

REPLACED = ("runc", "crun", "runsc", "containerd")


def put_program(target: Target, name: str, file: Brought, *, deadline: Deadline) -> str:
    """Replace the image's own program of this name, which stays next to it as NAME.dist.

    An OCI runtime that the image does not have gets a path of its own. Returns the path.
    """
    place = place_of(target, name, deadline=deadline) if name in REPLACED else ""
    if not place and not file.name:
        raise UnfitFileError(f"the machine has no program '{name}' to replace.", where=file.option)
    if not place:
        place = f"{OWN_PLACE}/{name}"
        checked(target.run(["mkdir", "-p", OWN_PLACE], deadline=deadline), where=target.address)
        target.write(place, file.content(), deadline=deadline, mode=0o755)
        return place
    checked(target.run(["mv", place, f"{place}.dist"], deadline=deadline), where=target.address)
    target.write(place, file.content(), deadline=deadline, mode=0o755)
    return place


def restart_containerd(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> None:
    """Restart containerd with the given file; UnfitFileError with its journal if it does not come up."""
    told = target.run(["systemctl", "restart", "containerd"], deadline=deadline)
    if told.status == 0:
        _need_cri(target, files, deadline=deadline)
        return
    journal = target.run(
        ["journalctl", "--no-pager", "--output=cat", "--unit=containerd", "--lines=12"], deadline=deadline
    )
    options = dict.fromkeys(file.option for file in files)
    raise UnfitFileError(
        f"containerd does not start with the given file. Its journal ends with:\n{journal.text.strip()}",
        where=", ".join(options),
    )


def _need_cri(target: Target, files: Sequence[Brought], *, deadline: Deadline) -> None:
    """Raise UnfitFileError for a containerd that runs and does not serve CRI; one that cannot be queried passes."""
    told = target.run(["ctr", "plugins", "list"], deadline=deadline)
    rows = [line.split() for line in told.text.splitlines()]
    states = [row[-1] for row in rows if len(row) >= 3 and row[1] == "cri"]  # noqa: PLR2004 - type, id, state
    if told.status != 0 or "ok" in states:
        return
    raise UnfitFileError(
        f"containerd starts with the given file but does not serve CRI: its plugin 'cri' is "
        f"{f'in the state {states[0]!r}' if states else 'missing'}.",
        where=", ".join(dict.fromkeys(file.option for file in files)),
        next_step="Remove it from disabled_plugins, and check its section of the configuration.",
    )


def _said(told: CommandResult) -> str:
    return (told.error_text.strip() or told.text.strip())[-1500:]
