"""An ordinary user on a machine, to which systemd delegates cgroups, and an OCI runtime that this user runs.

The user has a systemd of its own (user@UID.service), whose cgroup is delegated to it. With the systemd driver that
systemd makes the cgroups of pods. With cgroupfs they are below a unit of it with Delegate=, as systemd requires of
programs that make cgroups themselves. Source: systemd CGROUP_DELEGATION.md.

A machine may lack what a user's session needs beside systemd. memqos does without PAM's module, and writes missing
units of the user's own D-Bus for the daemon that serves the system's.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memqos.cgroupfs.hierarchy import Unified
from memqos.clock import Deadline
from memqos.engine.translate.versions import DRIVEN_DIRECTLY, traits_of_program
from memqos.errors import EnvironmentNotAbleError
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.place.base import OfferedRuntime, RequestRecorder
from memqos.runtime.delegation import Delegation, UserFolders
from memqos.runtime.oci import OciRuntime
from memqos.target.attended import attended
from memqos.target.base import CommandResult, Target, checked
from memqos.target.carried import REPLACE, WRITE, WRITE_EMPTY

__all__ = ["COPIES", "UserTarget", "delegated", "rootless_connected", "users_program"]


@dataclass(frozen=True, slots=True)
class UserTarget:
    """The user of another target, which has root's rights. enter: what stands before each command of the user's."""

    target: Target
    enter: tuple[str, ...]

    @property
    def address(self) -> str:
        """The other target's."""
        return self.target.address

    def run(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        """Run one command as the user; see the port."""
        result = self.target.run([*self.enter, *argv], deadline=deadline, stdin=stdin)
        return replace(result, argv=tuple(argv))

    def read(self, path: str, *, deadline: Deadline) -> bytes | None:
        """See the port."""
        return self.target.read(path, deadline=deadline)

    def write(self, path: str, data: bytes, *, deadline: Deadline, mode: int | None = None) -> None:
        """See the port; what the user may not write raises TargetError."""
        script = REPLACE if mode is not None else WRITE if data else WRITE_EMPTY
        size = str(max(len(data), 1))
        argv = ["sh", "-c", script, "sh", path, size, *([f"{mode:o}"] if mode is not None else [])]
        checked(self.run(argv, deadline=deadline, stdin=data), where=self.address)

    def list(self, path: str, *, deadline: Deadline) -> tuple[str, ...] | None:
        """See the port."""
        return self.target.list(path, deadline=deadline)

    def open(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program as the user; see the port."""
        return self.target.open([*self.enter, *argv])

    def forward(self, remote_socket: str) -> contextlib.AbstractContextManager[Path]:
        """See the port."""
        return self.target.forward(remote_socket)


USER = "memqos"
"""The user's name; it is made on a machine that has none."""

_UNIT = "memqos-delegated.service"

_AS_USER = """\
user() {
    setpriv --reuid="$uid" --regid="$gid" --init-groups env -i PATH="$PATH" HOME="$home" \
        XDG_RUNTIME_DIR="/run/user/$uid" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$uid/bus" "$@"
}
"""

# The unit's process moves out of the delegated cgroup itself, which can have children with controllers only without
# processes of its own. It waits in a user namespace, for runtimes that are to share one.
_DELEGATE = f"""\
set -eu
cd /
id -u "$1" >/dev/null 2>&1 || useradd --create-home "$1"
uid=$(id -u "$1") gid=$(id -g "$1") home=$(getent passwd "$1" | cut -d: -f6)
mkdir -p /run/systemd/system/user@.service.d /run/systemd/user
cat > /run/systemd/system/user@.service.d/memqos.conf <<END
[Service]
PAMName=
Delegate=
Delegate=pids memory cpu cpuset
Environment=XDG_RUNTIME_DIR=/run/user/%i DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/%i/bus
END
if [ ! -e /usr/lib/systemd/user/dbus.socket ]; then
    printf '[Socket]\\nListenStream=%%t/bus\\n' > /run/systemd/user/dbus.socket
    printf '[Unit]\\nRequires=dbus.socket\\n[Service]\\nType=notify\\nExecStart=%s %s\\n' "$(command -v dbus-daemon)" \
        '--session --address=systemd: --nofork --nopidfile --systemd-activation --syslog-only' \
        > /run/systemd/user/dbus.service
fi
systemctl daemon-reload
systemctl start "user@$uid.service"
{_AS_USER}
user systemctl --user start dbus.socket dbus.service
if ! user systemctl --user --quiet is-active {_UNIT}; then
    user systemd-run --user --quiet --unit={_UNIT} --property='Delegate=memory pids cpu cpuset' \
        sh -c 'own=/sys/fs/cgroup$(sed s/0::// /proc/self/cgroup)
            mkdir "$own/init" && echo 0 > "$own/init/cgroup.procs" &&
            exec unshare --user --map-root-user --mount --propagation=slave sleep infinity'
fi
pid=$(user systemctl --user show --property=MainPID --value {_UNIT})
n=200
until [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sleep ]; do
    n=$((n - 1))
    [ "$n" -gt 0 ] || {{ echo "{_UNIT} does not start" >&2; exit 1; }}
    sleep 0.05
done
score=$(cat "/proc/$(systemctl show --property=MainPID --value "user@$uid.service")/oom_score_adj")
manager=$(systemctl show --property=ControlGroup --value "user@$uid.service")
unit=$(user systemctl --user show --property=ControlGroup --value {_UNIT})
echo "$uid" "$gid" "$home" "$pid" "$score" "$manager" "$unit"
cat "/sys/fs/cgroup$manager/cgroup.controllers" "/sys/fs/cgroup$unit/cgroup.controllers"
"""

_ENTER = """\
cd /
echo $$ > "$1/cgroup.procs" && echo "$2" > /proc/$$/oom_score_adj || exit 126
shift 2
exec "$@"
"""
"""A command begins in a cgroup of the user's: the user can move its processes only within what is delegated to it."""


_EXECUTABLE = 'test -x "$(command -v "$1")"'

_COPY = """\
set -eu
mkdir -p "$2"
cp "$(command -v "$1")" "$2/${1##*/}"
chmod 755 "$2/${1##*/}"
"""

COPIES = "/usr/lib/memqos/rootless"
"""The folder of programs that root alone can start where they are: runc in memqos's images, which is a sealed copy in
the memory of a process of root's."""


def users_program(target: Target, user: Target, program: str, *, deadline: Deadline) -> str:
    """The path or name by which the user starts a program; it is copied if the user cannot start it as it is."""
    if user.run(["sh", "-c", _EXECUTABLE, "sh", program], deadline=deadline).status == 0:
        return program
    checked(target.run(["sh", "-c", _COPY, "sh", program, COPIES], deadline=deadline), where=target.address)
    return f"{COPIES}/{program.rpartition('/')[2]}"


def delegated(
    target: Target, cgroups: Unified, driver: CgroupDriver, *, own_namespace: bool = True, deadline: Deadline
) -> tuple[Delegation, Target]:
    """The user of this target, made if it is missing, with what is delegated to it; and what starts its OCI runtimes.

    cgroups: the machine's. own_namespace: as of `Delegation`; otherwise runtimes start in a user namespace in which
    the user is root, as below rootless Docker and below a kubelet in a user namespace.

    Raises EnvironmentNotAbleError if the machine delegates it no memory controller, TargetError if it has no systemd
    for users.
    """
    told = checked(target.run(["sh", "-c", _DELEGATE, "sh", USER], deadline=deadline), where=target.address)
    named, *listed = told.text.splitlines()
    uid, gid, home, pid, score, manager, unit = named.split()
    systemd = driver is CgroupDriver.SYSTEMD
    controllers = frozenset(listed[0 if systemd else 1].split())
    if "memory" not in controllers:
        raise EnvironmentNotAbleError(
            f"systemd delegates no memory controller to {USER}.",
            where=target.address,
            next_step="Add Delegate=memory pids cpu cpuset to user@.service.",
        )
    run = f"/run/user/{uid}"
    enter = (
        *("sh", "-c", _ENTER, "memqos-user", f"{cgroups.file(CgroupPath.parse(unit), 'init')}", score),
        *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--init-groups", "env", "-i"),
        *("PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", f"HOME={home}"),
        *(f"XDG_RUNTIME_DIR={run}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={run}/bus"),
    )
    user = UserTarget(target, enter)
    inside = ("nsenter", f"--target={pid}", "--user", "--mount", "--preserve-credentials")
    found = Delegation(
        target=user,
        hierarchy=cgroups.within(CgroupPath.parse(manager if systemd else unit), controllers),
        controllers=controllers,
        uid=int(uid),
        gid=int(gid),
        folders=UserFolders(home=f"{home}/.local/share/memqos", run=run),
        score=int(score),
        own_namespace=own_namespace,
    )
    return found, user if own_namespace else UserTarget(target, (*enter, *inside))


@contextlib.contextmanager
def rootless_connected(
    target: Target,
    cgroups: Unified,
    offer: OfferedRuntime,
    driver: CgroupDriver,
    *,
    record: RequestRecorder,
    deadline: Deadline,
) -> Iterator[OciRuntime]:
    """Connect to an OCI runtime as an ordinary user, see `Place.connect`; the offer has a handler for the driver."""
    delegation, starting = delegated(target, cgroups, driver, own_namespace=offer.own_user_namespace, deadline=deadline)
    oci = traits_of_program(offer.oci.name, offer.oci.version, DRIVEN_DIRECTLY)
    with attended(starting) as near, attended(delegation.target) as own:
        runtime = OciRuntime(
            near,
            program=users_program(target, delegation.target, offer.handlers[driver], deadline=deadline),
            driver=driver,
            name=offer.name,
            oci=oci,
            record=record,
            delegation=replace(delegation, target=own),
        )
        runtime.greet(deadline=deadline)
        yield runtime
