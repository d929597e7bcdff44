"""PURE: the commands that drive an OCI runtime on a target, one for each verb, and the meaning of their output.

Each is an sh script with arguments of its own, so that a verb is one round trip to the target and no name becomes part
of a script. conmon, as CRI-O and podman use it, is the parent of a container's first process: it records the exit code,
OOM kills, and the output in the kubelet's log format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memqos.engine.translate.resources import OciResources, OciTranslation
from memqos.engine.translate.versions import Feature, RuntimeName, Traits
from memqos.errors import EnvironmentNotAbleError, MachineryError, RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.runtime.base import Capability, ContainerState, ContainerStatus, RuntimeVersion
from memqos.runtime.delegation import Delegation
from memqos.runtime.oci_features import UNASKED, Learned
from memqos.target.base import CommandResult

__all__ = [
    "BUNDLES",
    "GONE",
    "ROOTS",
    "BundleFolders",
    "SeenContainer",
    "able",
    "command_refusal",
    "conmon_answer",
    "deleting",
    "entering",
    "folders_of",
    "followed",
    "following",
    "killing",
    "looking",
    "making",
    "need_start",
    "program_of",
    "seen",
    "words_of",
]

ROOTS = "/var/lib/memqos/rootfs"
"""The root file systems of programs in an image of memqos, by name."""

_STATE = "/run/memqos/oci"
"""The parent folder of each runtime's `--root`."""

BUNDLES = "/var/lib/memqos/bundles"
"""The parent folder of each runtime's bundles.

On a disk, so that files that a container writes are page cache and not tmpfs memory.
"""

_SOCKETS = "/run/memqos/conmon"
"""Where conmon links bundles, so that the paths of its sockets are short enough."""

_IMAGES = "memqos.local/"

_OVERLAY = """\
mount -t overlay -o "lowerdir=$lower,upperdir=$bundle/upper,workdir=$bundle/work" overlay "$bundle/rootfs"
"""
_COPY = """\
cp -R "$lower" "$bundle/rootfs"
"""
"""For an ordinary user, which mounts nothing outside of its containers."""

_MAKE = """\
set -eu
bundle=$1 lower=$2 log=$3 runtime=$4; shift 4
mkdir -p FOLDERS "$bundle/exits" "${log%/*}" SOCKETS
cat > "$bundle/config.json"
ROOTFS
cd "$bundle"
_OCI_SYNCPIPE=3 conmon --runtime "$(command -v "$runtime")" "$@" 3>&1 >conmon.out 2>&1 </dev/null |
    { IFS= read -r answer || true; printf '%s\n' "$answer"; }
test ! -s conmon.out || cat conmon.out >&2
"""
"""conmon writes the result of `create` to its pipe: {"pid": 17}, or -1 and the runtime's own words.

Shell builtins start no program; each program takes hundredths of a second under emulation.
"""

_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "slave")
"""Prefix of a command whose mounts stay private; they end with its last process, here with conmon.

systemd keeps a unit for each mount that it sees, which takes it longer than the kernel's mount itself.
"""

# While a container ends, the runtime may find it half removed; conmon's record a moment later is right.
_SEE = """\
bundle=$1 id=$2; shift 2
test -e "$bundle/config.json" || exit 9
code= state= status=0 n=20
ended() {
    { IFS= read -r code < "$bundle/exits/$id"; } 2>/dev/null
    test -n "$code"
}
if ! ended; then
    state=$("$@" state "$id") || status=$?
    until test "$status" = 0 || ended; do
        test "$n" -gt 0 || exit "$status"
        sleep 0.05
        n=$((n - 1))
    done
fi
echo "${code:--}"
test -e "$bundle/oom" && echo oom || echo -
echo "$state"
"""

_KILL = """\
bundle=$1 id=$2 grace=$3; shift 3
exit="$bundle/exits/$id"
gone() {
    n=$1
    until test -e "$exit"; do
        test "$n" -gt 0 || return 0
        sleep 0.05
        n=$((n - 1))
    done
    exit 0
}
gone 0
if [ "$grace" -gt 0 ]; then "$@" kill "$id" TERM; gone $((grace * 20)); fi
said=$("$@" kill "$id" KILL 2>&1) || true
gone 400
echo "${said:-it lives 20 s after KILL}" >&2
exit 1
"""

_DELETE = """\
sandbox=$1 which=$2; shift 2
status=0
for bundle in "$sandbox"/$which; do
    test -d "$bundle" || continue
    id=${bundle##*/}
    "$@" delete --force "$id"PLAINLY || status=$?
    { IFS= read -r pid < "$bundle/events.pid" && kill "$pid"; } 2>/dev/null
    rm -rf "$bundle" "SOCKETS/$id"
done
test "$which" != "*" || test ! -d "$sandbox" || rmdir "$sandbox"
exit $status
"""

_PLAINLY = ' 2>/dev/null || { "$@" kill "$id" KILL 2>/dev/null; sleep 0.1; "$@" delete "$id"; }'
"""For a runtime without --force; a container that is refused twice is an error."""

_FOLLOW = """\
bundle=$1; shift
"$@" > "$bundle/events.json" 2> "$bundle/events.err" < /dev/null &
pid=$!
echo "$pid" > "$bundle/events.pid"
n=200
while kill -0 "$pid" 2>/dev/null && test "$n" -gt 0; do
    case "$(readlink /proc/"$pid"/fd/* 2>/dev/null)" in *inotify*) exit 0;; esac
    sleep 0.05
    n=$((n - 1))
done
exit 0
"""
"""Returns once `events` waits for file changes, which is how it notices an OOM kill on cgroup v2."""

_FOLLOWED = """\
bundle=$1
read -r pid < "$bundle/events.pid"
if ! test -s "$bundle/events.json" && test -s "$bundle/events.err" && ! kill -0 "$pid" 2>/dev/null; then
    cat "$bundle/events.err" >&2
    exit 1
fi
cat "$bundle/events.json"
"""

_SELDOM = "3600s"
"""The interval between stats reports, if those are not what is needed."""

_NOT_STARTED = frozenset({126, 127})
"""The statuses with which a shell reports that a program cannot be started."""

GONE = 9
"""The status with which `seen` reports a missing container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFolders:
    """Where a runtime's containers are on the target.

    program: its file, "runc" or a path. name: of its folders. systemd: whether that is its cgroup driver. options:
    further global options. takes_root: whether it has --root; without it the runtime chooses the folder of its records.
    is_plain: whether `delete` may lack --force, which the specification's command line does not have. state_root,
    bundle_root, sockets: the folders of all runtimes' records, of their bundles, and of conmon's sockets. is_rootless:
    whether an ordinary user runs it.
    """

    program: str
    name: str
    systemd: bool
    options: tuple[str, ...] = ()
    takes_root: bool = True
    is_plain: bool = False
    state_root: str = _STATE
    bundle_root: str = BUNDLES
    sockets: str = _SOCKETS
    is_rootless: bool = False

    @property
    def state(self) -> str:
        """The runtime's own records."""
        return f"{self.state_root}/{self.name}"

    @property
    def bundles(self) -> str:
        """The folder of all bundles."""
        return f"{self.bundle_root}/{self.name}"

    def bundle(self, sandbox: str, container: str) -> str:
        """A container's bundle."""
        return f"{self.bundles}/{sandbox}/{container}"

    @property
    def command(self) -> list[str]:
        """The runtime with its global options."""
        return [self.program, *self.own_options, *(["--systemd-cgroup"] if self.systemd else [])]

    @property
    def own_options(self) -> list[str]:
        """Its global options, with either driver."""
        return [*(["--root", self.state] if self.takes_root else []), *self.options]


def folders_of(user: Delegation | None) -> dict[str, Any]:
    """The folders of an ordinary user's bundles, as fields of `BundleFolders`; {} for root's."""
    if user is None:
        return {}
    own = user.folders
    return {"state_root": own.state, "bundle_root": own.bundles, "sockets": own.sockets, "is_rootless": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenContainer:
    """The state of a container. exit_code: None before its end. oom: whether conmon saw an OOM kill in it."""

    state: ContainerState
    exit_code: int | None = None
    oom: bool = False


def program_of(image: str) -> str | None:
    """The program of an image of memqos, "memqos.local/memload:1"; None for another image."""
    name, _, tag = image.removeprefix(_IMAGES).partition(":")
    return name if image.startswith(_IMAGES) and tag and name.isidentifier() else None


def making(places: BundleFolders, *, sandbox: str, container: str, program: str, log: str) -> list[str]:
    """The command that creates a container; config.json is its standard input."""
    bundle = places.bundle(sandbox, container)
    rootfs = _COPY if places.is_rootless else _OVERLAY
    folders = "" if places.is_rootless else '"$bundle/upper" "$bundle/work" "$bundle/rootfs"'
    return [
        *(() if places.is_rootless else _OWN_MOUNTS),
        *(
            "sh",
            "-c",
            _MAKE.replace("SOCKETS", places.sockets).replace("ROOTFS\n", rootfs).replace("FOLDERS", folders),
            "memqos-create",
            bundle,
            f"{ROOTS}/{program}",
            log,
            places.program,
        ),
        *("--cid", container, "--cuuid", container, "--name", container),
        *(word for option in places.own_options for word in ("--runtime-arg", option)),
        *(["--systemd-cgroup"] if places.systemd else []),
        *("--bundle", bundle, "--persist-dir", bundle, "--exit-dir", f"{bundle}/exits"),
        *("--socket-dir-path", places.sockets),
        *("--container-pidfile", f"{bundle}/pid", "--conmon-pidfile", f"{bundle}/conmon.pid"),
        *("--log-path", f"k8s-file:{log}", "--log-level", "error"),
    ]


def conmon_answer(answer: str) -> tuple[int, str]:
    """The pid and the message in conmon's answer: 0 and the message for a refusal, the pid and "" otherwise.

    Raises MachineryError for an answer in another format.
    """
    try:
        said = json.loads(answer)
        pid, message = int(said["pid"]), str(said.get("message", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"conmon answered '{answer[:200]}' instead of a process id.", where="create") from error
    return (pid, "") if pid > 0 else (0, message.strip() or "no reason given")


def entering(places: BundleFolders, container: str, argv: tuple[str, ...]) -> list[str]:
    """The command that runs another in a container."""
    return [*places.command, "exec", container, *argv]


def looking(places: BundleFolders, *, sandbox: str, container: str) -> list[str]:
    """The command that prints a container's state; `seen` parses it."""
    return ["sh", "-c", _SEE, "memqos-state", places.bundle(sandbox, container), container, *places.command]


def seen(text: str) -> SeenContainer:
    """The state of a container. Raises MachineryError if the runtime's state is not JSON or has no status."""
    code, _, rest = text.partition("\n")
    word, _, state = rest.partition("\n")
    oom = word == "oom"
    if code.isdecimal():
        return SeenContainer(state=ContainerState.EXITED, exit_code=int(code), oom=oom)
    try:
        status = str(json.loads(state)["status"])
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"the runtime's state is '{state.strip()[:200]}', which has no status.") from error
    known = {"created": ContainerState.CREATED, "running": ContainerState.RUNNING}
    # Stopped, but conmon has not written its exit code yet.
    return SeenContainer(state=known.get(status, ContainerState.UNKNOWN), oom=oom)


def killing(places: BundleFolders, *, sandbox: str, container: str, grace: int) -> list[str]:
    """The command that ends a container: TERM, then KILL after `grace` seconds (0: at once)."""
    bundle = places.bundle(sandbox, container)
    return ["sh", "-c", _KILL, "memqos-kill", bundle, container, str(grace), *places.command]


def following(places: BundleFolders, *, sandbox: str, container: str) -> list[str]:
    """The command that starts `events` for a container; it ends with the container, or by `deleting`."""
    bundle = places.bundle(sandbox, container)
    return ["sh", "-c", _FOLLOW, "memqos-events", bundle, *places.command, "events", "--interval", _SELDOM, container]


def followed(places: BundleFolders, *, sandbox: str, container: str) -> list[str]:
    """The command that prints the output of `events` so far; it fails with the error if there is nothing else."""
    return ["sh", "-c", _FOLLOWED, "memqos-followed", places.bundle(sandbox, container)]


def deleting(places: BundleFolders, *, sandbox: str, container: str = "*") -> list[str]:
    """The command that removes a container, or all of a sandbox; it skips missing ones."""
    return [
        "sh",
        "-c",
        _DELETE.replace("SOCKETS", places.sockets).replace("PLAINLY", _PLAINLY if places.is_plain else ""),
        "memqos-delete",
        f"{places.bundles}/{sandbox}",
        container,
        *places.command,
    ]


_ROOM, _WORDS = 1 << 16, 2000
"""Characters of a runtime's output that are kept for each call, and those that messages show."""

_KILLED = 137

OPTIONS = {RuntimeName.RUNSC: ("--network=none", "--overlay2=none")}
"""Global options by program. runsc: no network stack of its own, and files on the bundle's disk."""


def answer(result: CommandResult) -> dict[str, object]:
    """A command's output, for its record."""
    return {"status": result.status, "stdout": _kept(result.text), "stderr": _kept(result.error_text)}


def _kept(text: str, room: int = _ROOM) -> str:
    """A text, shortened to its beginning and end if the runtime printed more than is kept."""
    left_out = len(text) - room
    return text if left_out <= 0 else f"{text[: room // 2]}\n… {left_out} characters …\n{text[-room // 2 :]}"


def able(oci: Traits, driver: CgroupDriver, learned: Learned = UNASKED) -> frozenset[Capability]:
    """The capabilities of an OCI runtime: all that need no daemon, less those that this one lacks.

    learned: what it reports about itself.
    """
    lacking = {Capability.CGROUP_DRIVER_REPORT, Capability.CRI, Capability.HOST_CONFIG}
    if oci.runtime in {RuntimeName.CRUN, RuntimeName.RUNSC, RuntimeName.OTHER_OCI}:
        # crun has no such command; runsc reports the programs' usage, and the cgroup holds the whole sandbox.
        # The specification has neither.
        lacking.add(Capability.EVENTS)
    if driver is CgroupDriver.CGROUPFS or oci.called or oci.runtime is RuntimeName.RUNSC:
        # The annotations are not part of the specification: runc and crun have them.
        lacking.add(Capability.UNIT_PROPERTIES)
    # Reported features take precedence over the known version; runsc has none, whatever it reports.
    modes = learned.features.modes
    if not (modes if learned.features.reported and modes is not None else oci.has(Feature.MEMORY_POLICY)):
        lacking.add(Capability.MEMORY_POLICY)
    if oci.runtime is RuntimeName.OTHER_OCI and learned.lacks("update"):
        lacking |= {Capability.UPDATE, Capability.UPDATE_UNIFIED, Capability.UPDATE_OPTIONS}
    if oci.runtime is RuntimeName.RUNSC:
        lacking.add(Capability.UPDATE_OPTIONS)
        if driver is CgroupDriver.SYSTEMD or not oci.has(Feature.READS_UNIFIED):
            lacking |= {Capability.UNIFIED, Capability.UPDATE_UNIFIED}
        if not oci.has(Feature.HAS_UPDATE):
            lacking |= {Capability.UPDATE, Capability.UPDATE_UNIFIED}
    return frozenset(Capability) - lacking


def accepted(method: str, translation: OciTranslation) -> OciResources:
    """The runtime's part of a translation; its refusal is raised as the runtime's own."""
    if translation.refusal:
        raise command_refusal(method, "REFUSED", translation.refusal)
    return translation.resources


def command_refusal(method: str, code: str, details: str) -> RuntimeCallError:
    """The error of a command, with the first of its own words."""
    said = _kept(details, _WORDS)
    return RuntimeCallError(
        f"{method} failed ({code}): {said}",
        where=method,
        data={"method": method, "code": code, "details": said},
    )


def words_of(result: CommandResult) -> str:
    """The end of a command's own words, its errors if it has any."""
    return (result.error_text.strip() or result.text.strip())[-600:] or "no reason given"


def need_start(result: CommandResult, *, runtime: str, where: str) -> None:
    """Raise EnvironmentNotAbleError for a runtime's command that the machine could not start."""
    if result.status in _NOT_STARTED:
        raise EnvironmentNotAbleError(
            f"{runtime} does not start: {words_of(result)}",
            where=where,
            next_step="Install a build for that machine's CPU, with its interpreter and libraries.",
        )


def version_of(text: str) -> RuntimeVersion | None:
    """Name and version in the first line of `--version`, and the version of the specification; None without output."""
    first = text.partition("\n")[0].split()
    spec = next((line.split()[-1] for line in text.splitlines() if line.startswith("spec")), "")
    return RuntimeVersion(name=first[0], version=first[-1], api_version=f"OCI {spec}".strip()) if first else None


def status_of(seen: SeenContainer) -> ContainerStatus:
    """A container's status for the port: OOMKilled is an end by SIGKILL after an OOM kill in it."""
    killed = seen.oom and seen.exit_code == _KILLED
    reason = "" if seen.exit_code is None else "OOMKilled" if killed else "Error" if seen.exit_code else "Completed"
    return ContainerStatus(state=seen.state, exit_code=seen.exit_code, reason=reason, message="", resources=None)


def stats_of(text: str) -> Mapping[str, object]:
    """The data of the event that `events --stats` prints; MachineryError for other output."""
    try:
        event = json.loads(text)
        return {"stats": dict(event["data"])}[event["type"]]
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"the runtime's event is '{text.strip()[:200]}', which has no stats.") from error


def event_types(text: str) -> tuple[str, ...]:
    """The types of events, one for each line; an unfinished line is left out."""
    whole = text[: text.rfind("\n") + 1]
    try:
        return tuple(str(json.loads(line)["type"]) for line in whole.splitlines())
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"the runtime's events are '{whole.strip()[:200]}', which are not events.") from error
