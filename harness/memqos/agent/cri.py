"""A small CRI client for the guard: lists, stops and removes sandboxes, with the minimum of gRPC and HTTP/2.

Targets have no gRPC library, and h2 with its imports is six times the size of the rest of the agent.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, BinaryIO

CALL_SECONDS = 60
"""Seconds to wait for an answer of a runtime or of Docker."""

PATH = "/runtime.v1.RuntimeService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
MORE = 0x80
"""The continuation bit of a protobuf varint's byte."""

LABELS = 5
"""The field of PodSandbox."""

WIDE = struct.pack(">HI", 4, (1 << 31) - 1)
"""SETTINGS_INITIAL_WINDOW_SIZE: large enough that no answer waits for a WINDOW_UPDATE."""


def call(path: str, method: str, message: bytes) -> bytes:
    """One unary gRPC call over a minimum of HTTP/2 (RFC 9113); the gRPC status is ignored."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": PATH + method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())
    reply = b""
    with socket.socket(socket.AF_UNIX) as there, there.makefile("rb") as connection:
        there.settimeout(CALL_SECONDS)
        there.connect(path)
        there.sendall(PREFACE + frame(SETTINGS, 0, 0, WIDE) + frame(HEADERS, 4, 1, block))
        there.sendall(frame(DATA, 1, 1, struct.pack(">BI", 0, len(message)) + message))
        while True:
            kind, flags, stream, payload = read_frame(connection)
            if kind in (SETTINGS, PING) and not flags & 1:
                there.sendall(frame(kind, 1, 0, payload if kind == PING else b""))
            if kind in (RESET, GOAWAY):
                raise OSError(f"{method} was refused")
            if stream == 1 and kind == DATA:
                reply += payload
            if stream == 1 and kind in (DATA, HEADERS) and flags & 1:
                return reply[5:]


def text(word: str) -> bytes:
    """A string of less than 127 bytes, encoded the same way in HPACK and protobuf."""
    return bytes([len(word)]) + word.encode()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def read_frame(connection: BinaryIO) -> tuple[int, int, int, bytes]:
    """The next frame: kind, flags, stream and payload; OSError if the connection ends before."""
    head = connection.read(9)
    payload = connection.read(int.from_bytes(head[:3], "big"))
    if len(head) + len(payload) < 9 + int.from_bytes(head[:3], "big"):
        raise OSError("the runtime ended the connection")
    kind, flags, stream = struct.unpack(">BBI", head[3:])
    return kind, flags, stream & 0x7FFFFFFF, payload


def fields(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a protobuf message by number, as numbers or bytes."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value, at = varint(message, at)
            found.append((key >> 3, value))
            continue
        if size is None:
            size, at = varint(message, at)
        found.append((key >> 3, message[at : at + size]))
        at += size
    return found


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint at this offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & ~MORE) << shift
        at, shift = at + 1, shift + 7
        if not byte & MORE:
            return value, at


def ask_of_sandbox(path: str, method: str, sandbox: str) -> None:
    """Call a method whose request is a sandbox id."""
    call(path, method, b"\x0a" + text(sandbox))


def sandboxes(path: str, label: str) -> list[str]:
    """The ids of the sandboxes that have this label."""
    found = []
    for number, item in fields(call(path, "ListPodSandbox", b"")):
        pod = fields(item) if number == 1 else []
        labels = [dict(fields(entry)).get(1) for key, entry in pod if key == LABELS]
        if label.encode() in labels:
            found.append(dict(pod)[1].decode())
    return found
