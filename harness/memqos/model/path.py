"""The path of a cgroup below the cgroup root, as a value without a mount point."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ROOT", "CgroupPath"]


@dataclass(frozen=True, slots=True, order=True)
class CgroupPath:
    """A cgroup by its names from the root down; no names mean the root."""

    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in self.parts:
            if not part or part in {".", ".."} or "/" in part or "\0" in part:
                raise ValueError(f"'{part}' cannot be the name of a cgroup")

    @classmethod
    def parse(cls, text: str) -> CgroupPath:
        """From "/a/b" or "a/b"; empty names between slashes are dropped."""
        return cls(tuple(part for part in text.split("/") if part))

    @property
    def name(self) -> str:
        """The last name; "" for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> CgroupPath:
        """The cgroup above; ValueError at the root."""
        if not self.parts:
            raise ValueError("the root cgroup has no parent")
        return CgroupPath(self.parts[:-1])

    @property
    def ancestors(self) -> tuple[CgroupPath, ...]:
        """The cgroups above this one, nearest first, without the root."""
        return tuple(CgroupPath(self.parts[:depth]) for depth in range(len(self.parts) - 1, 0, -1))

    def child(self, name: str) -> CgroupPath:
        """The cgroup of this name inside."""
        return CgroupPath((*self.parts, name))

    def below(self, other: CgroupPath) -> bool:
        """Whether this cgroup is inside `other`, at any depth; false for `other` itself."""
        return len(self.parts) > len(other.parts) and self.parts[: len(other.parts)] == other.parts

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)


ROOT = CgroupPath()
