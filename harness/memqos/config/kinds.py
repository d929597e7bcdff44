"""What a setting is: its name in every place where it can be given, and what its text is turned into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from memqos.model.node import CgroupVersion

__all__ = ["PREFIX", "Default", "Kind", "Setting"]

PREFIX = "MEMQOS_"
"""What the names of all our environment variables begin with."""

Default = str | int | bool | CgroupVersion | tuple[str, ...] | None
"""A setting's default; None is "not set"."""


class Kind(Enum):
    """What a setting's text is turned into."""

    WORD = "a word"
    NAME_OR_FILE = "a name, or a file's path: what ends in .json or has a slash"
    DRIVERS = "cgroup drivers, separated by commas"
    HIERARCHY = "a version of cgroups"
    WORDS = "words, separated by commas"
    RUNTIMES = "runtimes, separated by commas"
    COUNT = "a whole number, 1 or more"
    FLAG = "yes or no"
    DURATION = "a time, such as 90s, 20m or 1h30m"
    RUNTIME = "a version such as 1.3.6, or one with its runtime's name, such as crun@1.21"
    FILE = "an existing file"
    FILES = "existing files, each with an option of its own"
    FOLDER = "a folder"
    SHARD = "a part of several, such as 2/5"
    PLACED = "files or folders with their place in the machine, SRC:DST or SRC:DST:MODE, each with an option of its own"
    UNITS = "systemd units, each with an option of its own"

    @property
    def is_repeated(self) -> bool:
        """Whether each value has an option of its own."""
        return self in {Kind.FILES, Kind.PLACED, Kind.UNITS}

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return self.is_repeated or self in {Kind.WORDS, Kind.RUNTIMES, Kind.DRIVERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the table.

    name: as in `memqos run --NAME`; pytest's option is `--memqos-NAME`, the environment variable MEMQOS_NAME.
    default: None is "not set", which `help` explains. choices: empty where any word is taken.
    """

    name: str
    kind: Kind
    help: str
    default: Default = None
    metavar: str = ""
    choices: tuple[str, ...] = ()

    @property
    def pytest_option(self) -> str:
        """The plugin's option; prefixed, since a plain name could belong to another plugin."""
        return f"--memqos-{self.name}"

    @property
    def environment(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.name.upper().replace('-', '_')}"

    @property
    def ini(self) -> str:
        """The key in pytest's own file."""
        return f"{PREFIX.lower()}{self.key}"

    @property
    def key(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")
