"""ssh keys: one client key for the cache, one host key for each image."""

from __future__ import annotations

import subprocess
from pathlib import Path

from memqos.errors import ImageError
from memqos.vm.cache.store import Cache
from memqos.vm.host.programs import find_program
from memqos.vm.host.progress import Progress

__all__ = ["client_key", "make_key"]


def client_key(cache: Cache, *, progress: Progress) -> Path:
    """The private key that the cache's machines let in; made at its first use, readable by its owner only."""
    folder = cache.folder("keys", mode=0o700)
    key = folder / "id_ed25519"
    with cache.lock("keys", progress=progress, waiting="waiting for another process that is creating the ssh keys"):
        if not (key.exists() and public_half(key).exists()):
            fresh = folder / "fresh"
            for path in (fresh, public_half(fresh)):
                path.unlink(missing_ok=True)
            make_key(fresh)
            # The private half last: it is what the next process looks for.
            public_half(fresh).rename(public_half(key))
            fresh.rename(key)
    return key


def make_key(path: Path) -> None:
    """Make an ed25519 key pair without a passphrase: PATH and PATH.pub."""
    told = subprocess.run(
        [find_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "memqos", "-f", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise ImageError(f"ssh-keygen failed: {(told.stderr or told.stdout).strip()}", where=str(path))


def public_half(key: Path) -> Path:
    """Where the public half of a private key is."""
    return key.with_name(f"{key.name}.pub")
