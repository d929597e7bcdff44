"""A systemd that listens on a socket of its own: it creates a folder for each started slice, and records everything."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from jeepney.low_level import Endianness, Header, HeaderFields, Message, MessageType, Parser

CHUNK = 1 << 16


class SystemdOnASocket:
    """Answers one connection after another until the context ends.

    folder: where its slices' cgroups appear. answers: what it returns, by method, as signature and body. errors: the
    name and the text of the error that it answers a method with, or a method of one unit ("StopUnit a.slice").
    result: how its jobs end. hangs_up: whether it closes the connection when a method is called. asked: what it was
    called with, as [method, *body].
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "bus"
        self.answers: dict[str, tuple[str, tuple[Any, ...]]] = {}
        self.errors: dict[str, tuple[str, str]] = {}
        self.result = "done"
        self.hangs_up = False
        self.makes_cgroups = True
        self.asked: list[list[Any]] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> SystemdOnASocket:
        self._listening.bind(str(self.path))
        self._listening.listen()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self._greet(connection)
                self._answer(connection)

    def _greet(self, connection: socket.socket) -> None:
        begun = b""
        while b"\r\n" not in begun:
            begun += connection.recv(CHUNK)
        connection.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
        while not begun.endswith(b"BEGIN\r\n"):
            begun += connection.recv(1)

    def _answer(self, connection: socket.socket) -> None:
        parser = Parser()
        while data := connection.recv(CHUNK):
            for message in parser.feed(data):
                method = message.header.fields[HeaderFields.member]
                if method not in {"Hello", "AddMatch"}:
                    self.asked.append([method, *message.body])
                    if self.hangs_up:
                        return
                connection.sendall(self._reply(message, method))

    def _reply(self, message: Message, method: str) -> bytes:
        unit = message.body[0] if message.body else ""
        for call in (method, f"{method} {unit}"):
            if call not in self.errors:
                continue
            name, said = self.errors[call]
            return said_of(message, MessageType.error, "s", (said,), name=name)
        if method == "StartTransientUnit" and self.makes_cgroups:
            (self.folder / message.body[0]).mkdir()
        job = f"/org/freedesktop/systemd1/job/{len(self.asked)}"
        answer = said_of(
            message, MessageType.method_return, *self.answers.get(method, ("o", (job,)) if self.asked else ("", ()))
        )
        if method == "StopUnit":
            # The job may have ended before its name is known.
            removed = (len(self.asked), job, message.body[0], self.result)
            return said_of(message, MessageType.signal, "uoss", removed) + answer
        return answer


def said_of(message: Message, kind: MessageType, signature: str, body: tuple[Any, ...], *, name: str = "") -> bytes:
    """The messages after this one: an answer to it, an error, or the signal that a job was removed."""
    fields: dict[HeaderFields, Any] = {HeaderFields.signature: signature} if signature else {}
    if kind is MessageType.signal:
        manager = "org.freedesktop.systemd1.Manager"
        fields |= {HeaderFields.path: "/org/freedesktop/systemd1", HeaderFields.interface: manager}
        fields |= {HeaderFields.member: "JobRemoved"}
    else:
        fields |= {HeaderFields.reply_serial: message.header.serial}
    if name:
        fields |= {HeaderFields.error_name: name}
    return bytes(Message(Header(Endianness.little, kind, 0, 1, -1, -1, fields), body).serialise(serial=1))
