"""A client of systemd's manager on the system bus, or of an ordinary user's on that user's bus.

Messages are built with jeepney.

Under emulation, starting busctl or systemctl once takes as long as many calls over one connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

from jeepney.auth import BEGIN, AuthenticationError, Authenticator  # type: ignore[import-untyped]
from jeepney.low_level import (  # type: ignore[import-untyped]
    Endianness,
    Header,
    HeaderFields,
    Message,
    MessageType,
    Parser,
)

from memqos.agent.cgroup import StepError
from memqos.agent.channel import CHUNK

SOCKET = f"/run/user/{os.geteuid()}/bus" if os.geteuid() else "/run/dbus/system_bus_socket"
"""Where systemd is spoken to: root's, or an ordinary user's own."""
BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
SYSTEMD = "org.freedesktop.systemd1"
MANAGER = (SYSTEMD, "/org/freedesktop/systemd1", f"{SYSTEMD}.Manager")
JOBS = f"type='signal',sender='{SYSTEMD}',interface='{MANAGER[2]}',member='JobRemoved'"
SECONDS = 30.0
GONE = f"{SYSTEMD}.NoSuchUnit"


class RefusedError(StepError):
    """The other side answered with this error of D-Bus."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what)
        self.name = name


class PendingCall(NamedTuple):
    """A call without an answer yet: its serial number, and its name for errors."""

    serial: int
    what: str


class Manager:
    """systemd's manager. The first call opens the connection. A refused call raises StepError.

    seconds: the longest wait for each answer.
    """

    def __init__(self, *, seconds: float = SECONDS, path: str = SOCKET) -> None:
        self._path = path
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._parser = Parser()
        self._serial = 0
        self._is_subscribed = False
        self._replies: dict[int, Message] = {}
        self._removed: dict[str, str] = {}

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()

    def ask_slice(self, unit: str, properties: list[Any]) -> PendingCall:
        """Request a transient slice with these properties; its cgroup appears soon after the answer."""
        return self._ask(MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "replace", variants(properties), []))

    def set_properties(self, unit: str, properties: list[Any]) -> None:
        """Change these properties of a unit until the next boot."""
        self._call(MANAGER, "SetUnitProperties", "sba(sv)", (unit, True, variants(properties)))

    def properties(self, unit: str, names: list[str]) -> list[list[Any]]:
        """These properties of a slice as [name, signature, value]; properties that this systemd lacks are left out."""
        asked = (SYSTEMD, object_of(unit), "org.freedesktop.DBus.Properties")
        (known,) = self._call(asked, "GetAll", "s", (f"{SYSTEMD}.Slice",))
        return [[name, known[name][0], plain(known[name][1])] for name in names if name in known]

    def slices_described(self, beginning: str) -> list[str]:
        """The active slices whose description has this prefix."""
        (known,) = self._call(MANAGER, "ListUnitsByPatterns", "asas", (["active"], ["*.slice"]))
        return [unit for unit, description, *_ in known if description.startswith(beginning)]

    def stop(self, units: list[str]) -> None:
        """Stop these units, all at once, and wait; a missing unit is not an error."""
        bus = self._subscribed()
        asked = {unit: self._ask(MANAGER, "StopUnit", "ss", (unit, "replace")) for unit in units}
        jobs = {unit: job for unit, one in asked.items() if (job := self._job(one))}
        for unit, job in jobs.items():
            while job not in self._removed:
                self._take(self._next(bus))
            if self._removed[job] != "done":
                raise StepError(f"systemd could not stop '{unit}': its job is {self._removed[job]}")

    def _job(self, asked: PendingCall) -> str:
        """The job that stops a unit; "" if it is gone."""
        try:
            return str(self.answer(asked)[0])
        except RefusedError as error:
            if error.name == GONE:
                return ""
            raise

    def _subscribed(self) -> socket.socket:
        """The connection, on which systemd reports ended jobs.

        systemd sends JobRemoved to the client that requested the job (core/dbus-job.c, bus_job_send_removed_signal). A
        client that calls Subscribe also gets every change of every unit, which loads the bus.
        """
        bus = self._socket or self._connected()
        if not self._is_subscribed:
            self._call(BUS, "AddMatch", "s", (JOBS,))
            self._is_subscribed = True
        return bus

    def _call(self, at: tuple[str, str, str], method: str, signature: str = "", body: tuple[Any, ...] = ()) -> Any:
        """Call a method; its return value."""
        return self.answer(self._ask(at, method, signature, body))

    def answer(self, asked: PendingCall) -> Any:
        """Wait for the return value of a call; other messages that arrive are kept."""
        bus = self._socket or self._connected()
        while asked.serial not in self._replies:
            self._take(self._next(bus))
        message = self._replies.pop(asked.serial)
        if message.header.message_type is MessageType.error:
            name = message.header.fields[HeaderFields.error_name]
            said = message.body[0] if message.body else name
            raise RefusedError(f"{asked.what} failed: {said}", name)
        return message.body

    def _connected(self) -> socket.socket:
        bus = socket.socket(socket.AF_UNIX)
        bus.settimeout(self._seconds)
        try:
            bus.connect(self._path)
            authenticator = Authenticator()
            for line in authenticator:
                bus.sendall(line)
                authenticator.feed(received(bus))
            bus.sendall(BEGIN)
        except (OSError, AuthenticationError) as error:
            bus.close()
            raise StepError(f"systemd cannot be reached by '{self._path}': {error}") from error
        self._socket = bus
        self._call(BUS, "Hello")
        return bus

    def _ask(self, at: tuple[str, str, str], method: str, signature: str, body: tuple[Any, ...]) -> PendingCall:
        """Send a method call; `answer` waits for its result."""
        bus = self._socket or self._connected()
        destination, path, interface = at
        fields = {
            HeaderFields.destination: destination,
            HeaderFields.path: path,
            HeaderFields.interface: interface,
            HeaderFields.member: method,
            **({HeaderFields.signature: signature} if signature else {}),
        }
        header = Header(Endianness.little, MessageType.method_call, 0, 1, -1, -1, fields)
        self._serial += 1
        with self._answering():
            bus.sendall(Message(header, body).serialise(serial=self._serial))
        return PendingCall(self._serial, f"{method}{f' of {body[0]!r}' if body else ''}")

    def _next(self, bus: socket.socket) -> Message:
        """The next message from the bus."""
        while (message := self._parser.get_next_message()) is None:
            with self._answering():
                self._parser.add_data(received(bus))
        return message

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StepError(f"systemd does not answer by '{self._path}': {error}") from error

    def _take(self, message: Message) -> None:
        """Keep a reply, or the result that a JobRemoved signal reports."""
        reply = message.header.fields.get(HeaderFields.reply_serial)
        if reply is not None:
            self._replies[reply] = message
        elif message.header.fields.get(HeaderFields.member) == "JobRemoved":
            _, job, _, result = message.body
            self._removed[job] = result


def received(bus: socket.socket) -> bytes:
    """The next bytes; OSError if the connection is closed."""
    data = bus.recv(CHUNK)
    if not data:
        raise ConnectionResetError("the other side has closed the connection")
    return data


def object_of(unit: str) -> str:
    """The object path of a unit on the bus."""
    return f"{MANAGER[1]}/unit/" + "".join(
        one if one.isascii() and one.isalnum() else f"_{ord(one):02x}" for one in unit
    )


def variants(properties: list[Any]) -> list[tuple[str, tuple[str, Any]]]:
    """Properties [name, signature, value] as an a(sv); the input has bytes as a list of numbers."""
    return [(name, (signature, bytes(value) if signature == "ay" else value)) for name, signature, value in properties]


def plain(value: Any) -> Any:
    """A property's value as JSON: bytes become a list of numbers."""
    return list(value) if isinstance(value, bytes) else value
