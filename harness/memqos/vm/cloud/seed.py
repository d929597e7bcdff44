"""The NoCloud seed: a small ISO 9660 image from which cloud-init takes a user and its key.

cloud-init looks for a disk labelled "cidata" with the files meta-data and user-data (cloud-init's documentation,
datasources, NoCloud). The image is generated here, byte for byte the same for the same user and key.
"""

from __future__ import annotations

import json
import struct

__all__ = ["seed_image", "user_data"]

SECTOR = 2048
FIRST = 16
"""The sectors before the volume descriptors belong to the system."""

LABEL = "cidata"
INSTANCE = "memqos"


def user_data(user: str, public_key: str) -> str:
    """The cloud-config: this user may log in with the key, and becomes root without a password."""
    account: dict[str, object] = {"name": user, "ssh_authorized_keys": [public_key.strip()], "lock_passwd": True}
    if user != "root":
        account |= {"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/sh"}
    document = {
        "disable_root": False,
        "users": [account],
        "package_update": False,
        "package_upgrade": False,
    }
    # JSON is YAML.
    return "#cloud-config\n" + json.dumps(document, indent=1) + "\n"


def seed_image(user: str, public_key: str) -> bytes:
    """The image with the two files."""
    meta = json.dumps({"instance-id": INSTANCE, "local-hostname": INSTANCE}) + "\n"
    return iso_image(LABEL, {"META-DATA.;1": meta.encode(), "USER-DATA.;1": user_data(user, public_key).encode()})


def iso_image(label: str, files: dict[str, bytes]) -> bytes:
    """An ISO 9660 image with these files in its root; Linux shows NAME.;1 as name (fs/isofs/dir.c)."""
    little, big, root, first = FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5
    records, contents, place = [], b"", first
    for name, content in sorted(files.items()):
        records.append(_record(name.encode(), place, len(content), folder=False))
        contents += _padded(content)
        place = first + len(contents) // SECTOR
    itself = _record(b"\0", root, SECTOR, folder=True)
    folder = _padded(b"".join([itself, _record(b"\1", root, SECTOR, folder=True), *records]))
    descriptor = _descriptor(label, sectors=place, little=little, big=big, root=itself)
    end = _padded(b"\xffCD001\x01")
    tables = [_padded(struct.pack(f"{order}BBIHBx", 1, 0, root, 1, 0)) for order in "<>"]
    return bytes(FIRST * SECTOR) + descriptor + end + b"".join(tables) + folder + contents


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % SECTOR)


def _both(number: int, form: str) -> bytes:
    """A number in both byte orders."""
    return struct.pack(f"<{form}", number) + struct.pack(f">{form}", number)


def _record(name: bytes, place: int, size: int, *, folder: bool) -> bytes:
    """A directory record; without a time."""
    body = b"".join(
        [b"\0", _both(place, "I"), _both(size, "I"), bytes(7), bytes([2 if folder else 0]), b"\0\0", _both(1, "H")]
    )
    body += bytes([len(name)]) + name
    length = len(body) + 1
    return bytes([length + length % 2]) + body + bytes(length % 2)


def _descriptor(label: str, *, sectors: int, little: int, big: int, root: bytes) -> bytes:
    """The primary volume descriptor."""
    unknown = b"0" * 16 + b"\0"
    fields = b"".join(
        [
            b"\x01CD001\x01\0", b" " * 32, label.encode().ljust(32), bytes(8), _both(sectors, "I"), bytes(32),
            _both(1, "H"), _both(1, "H"), _both(SECTOR, "H"), _both(10, "I"),
            struct.pack("<II", little, 0), struct.pack(">II", big, 0), root,
            b" " * 128, b" " * 128, b" " * 128, b"MEMQOS".ljust(128), b" " * 37, b" " * 37, b" " * 37,
            unknown * 4, b"\x01\0",
        ]
    )  # fmt: skip
    return _padded(fields)
