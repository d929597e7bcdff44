"""A static program to a container image: the bytes of a docker-archive, the same for the same program.

No registry and no builder is needed, and the image's id depends on nothing but its content.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

__all__ = ["container_image", "container_image_name", "root_of"]

EPOCH = "1970-01-01T00:00:00Z"


def container_image_name(program: str) -> str:
    """The name that a program's image has in the guest's store: memqos.local/memload:1."""
    return f"memqos.local/{program}:1"


def container_image(program: str, binary: bytes, *, architecture: str) -> bytes:
    """A docker-archive with one layer: the program at /NAME, which is also the entry point, and an empty /tmp."""
    layer = root_of(program, binary)
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "created": EPOCH,
            "config": {"Entrypoint": [f"/{program}"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            "history": [{"created": EPOCH, "created_by": "memqos"}],
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = _json([{"Config": config_name, "RepoTags": [container_image_name(program)], "Layers": ["layer.tar"]}])
    return _tar(
        [_file(config_name, config), _file("layer.tar", layer), _file("manifest.json", manifest)],
    )


def root_of(program: str, binary: bytes) -> bytes:
    """The root file system of a program's image, as a tar: the program, and an empty /tmp."""
    return _tar([_folder("tmp", 0o1777), _file(program, binary, 0o755)])


Member = tuple[tarfile.TarInfo, bytes]


def _file(name: str, content: bytes, mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    return member, content


def _folder(name: str, mode: int) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member, b""


def _tar(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
