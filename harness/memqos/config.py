"""The one table of settings: name, default, environment variable, and where each value came from.

Options of `memqos run` and of the pytest plugin are both made from this table, so they cannot drift apart.
Precedence: default < environment < command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from memqos.errors import UnknownNameError, UsageError

__all__ = ["SETTINGS", "Kind", "Setting", "SettingValue", "Settings", "resolve"]

Plain = str | int | bool | Path | tuple[str, ...] | tuple[Path, ...] | None


class Kind(Enum):
    """What a setting's text is turned into."""

    WORD = "word"
    WORDS = "words, separated by commas"
    COUNT = "a whole number, 1 or more"
    FLAG = "yes or no"
    FILE = "an existing file"
    FILES = "existing files, each with an option of its own"
    FOLDER = "a folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the table.

    name: as in `memqos run --NAME`; pytest's option is `--memqos-NAME`, the environment variable MEMQOS_NAME.
    default: None is "not set", which `help` explains. choices: empty where any word is taken.
    """

    name: str
    kind: Kind
    help: str
    default: Plain = None
    metavar: str = ""
    choices: tuple[str, ...] = ()

    @property
    def pytest_option(self) -> str:
        """The plugin's option; prefixed, since a plain name could belong to another plugin."""
        return f"--memqos-{self.name}"

    @property
    def environment(self) -> str:
        """The environment variable."""
        return f"MEMQOS_{self.name.upper().replace('-', '_')}"

    @property
    def key(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")


SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="profile",
        kind=Kind.WORDS,
        default=("trixie",),
        metavar="NAME[,NAME...]",
        help="machines to boot: kernel, runtimes and systemd of vm/profiles/NAME.toml; every case runs on each",
    ),
    Setting(
        name="topology",
        kind=Kind.WORD,
        default="two-zones",
        metavar="NAME|FILE",
        help="CPUs, NUMA zones, memory and swap of fixtures/topologies/NAME.json, or of a file of your own",
    ),
    Setting(
        name="cgroup",
        kind=Kind.WORD,
        default="v2",
        choices=("v1", "v2"),
        metavar="VERSION",
        help="cgroup hierarchy that the machines boot with; v1 needs a profile that can, see `memqos vm list`",
    ),
    Setting(
        name="no-recursiveprot",
        kind=Kind.FLAG,
        default=False,
        help="mount cgroup v2 without memory_recursiveprot, as kernels before 5.7 have it",
    ),
    Setting(
        name="runtime",
        kind=Kind.WORD,
        default="runc",
        choices=("runc", "crun"),
        metavar="NAME",
        help="OCI runtime below containerd",
    ),
    Setting(
        name="driver",
        kind=Kind.WORD,
        default="systemd",
        choices=("systemd", "cgroupfs"),
        metavar="NAME",
        help="cgroup driver of the kubelet whose rules are enforced",
    ),
    Setting(
        name="kubernetes",
        kind=Kind.WORDS,
        default=(),
        metavar="X.Y[,X.Y...]",
        help="run only the revisions of these releases; all of them if not given",
    ),
    Setting(
        name="runtime-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of the OCI runtime inside the machine; the image's own stays beside it "
        "as NAME.dist",
    ),
    Setting(
        name="runtime-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this Debian package in the machine, such as a runtime of yours; may be given several times",
    ),
    Setting(
        name="containerd-binary",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of containerd inside the machine; the image's own stays beside it",
    ),
    Setting(
        name="containerd-config",
        kind=Kind.FILE,
        metavar="PATH",
        help="put this file in the place of /etc/containerd/config.toml inside the machine",
    ),
    Setting(
        name="kernel-image",
        kind=Kind.FILE,
        metavar="PATH",
        help="boot this kernel (bzImage); its modules are not there, so it has to do without them or bring an initrd",
    ),
    Setting(
        name="initrd",
        kind=Kind.FILE,
        metavar="PATH",
        help="boot the kernel of --kernel-image with this initrd instead of the image's",
    ),
    Setting(
        name="kernel-deb",
        kind=Kind.FILES,
        default=(),
        metavar="PATH",
        help="install this kernel's Debian package in the machine and boot it; may be given several times",
    ),
    Setting(
        name="no-checkpoint",
        kind=Kind.FLAG,
        default=False,
        help="boot every machine instead of restoring it from its checkpoint; slower, and nothing else should change",
    ),
    Setting(
        name="keep-vm",
        kind=Kind.FLAG,
        default=False,
        help="leave the machine of the first failure running, and print how to enter it and how to end it",
    ),
    Setting(
        name="results",
        kind=Kind.FOLDER,
        metavar="DIR",
        help="folder for the results; results/TIME in the current folder if not given",
    ),
    Setting(
        name="parallel",
        kind=Kind.COUNT,
        default=2,
        metavar="N",
        help="pods that are started at the same time in one machine",
    ),
)

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_YES = frozenset({"1", "yes", "true", "on"})
_NO = frozenset({"0", "no", "false", "off", ""})


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting's value and its origin: "default", "environment MEMQOS_X", or the option as it was written."""

    value: Plain
    origin: str


class Settings(Mapping[str, SettingValue]):
    """All settings by key, each with its origin; the typed properties are what the package reads."""

    def __init__(self, values: Mapping[str, SettingValue]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> SettingValue:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def plain(self) -> dict[str, Plain]:
        """All values by key, without their origins."""
        return {key: value.value for key, value in self._values.items()}

    def word(self, key: str) -> str:
        """The text of a setting of kind WORD."""
        value = self._values[key].value
        if not isinstance(value, str):
            raise TypeError(f"'{key}' is not a word")
        return value

    @property
    def kubernetes(self) -> tuple[str, ...]:
        """The releases to narrow to; none means every release."""
        value = self._values["kubernetes"].value
        return tuple(map(str, value)) if isinstance(value, tuple) else ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles to run on, in the order in which they were asked for; one at least."""
        value = self._values["profile"].value
        return tuple(map(str, value)) if isinstance(value, tuple) else ()

    @property
    def results(self) -> Path | None:
        """The folder for results, None if one is to be made from the time."""
        return self._path("results")

    @property
    def keep_vm(self) -> bool:
        """Whether a machine outlives a failure."""
        return self._values["keep_vm"].value is True

    @property
    def parallel(self) -> int:
        """How many pods are started at the same time."""
        value = self._values["parallel"].value
        return value if isinstance(value, int) else 1

    def _path(self, key: str) -> Path | None:
        value = self._values[key].value
        return value if isinstance(value, Path) else None


def resolve(given: Mapping[str, object], environment: Mapping[str, str], *, option_prefix: str = "--") -> Settings:
    """All settings, from what the command line gave (None: not given), the environment and the defaults.

    Raises UsageError for a value that its setting does not take, UnknownNameError for a word that is no choice.
    """
    values = {}
    for setting in SETTINGS:
        option, variable = f"{option_prefix}{setting.name}", setting.environment
        if given.get(setting.key) is not None:
            values[setting.key] = SettingValue(_convert(setting, given[setting.key], option), option)
        elif variable in environment:
            values[setting.key] = SettingValue(_convert(setting, environment[variable], variable), variable)
        else:
            values[setting.key] = SettingValue(setting.default, "default")
    return Settings(values)


def _convert(setting: Setting, given: object, origin: str) -> Plain:
    if setting.kind is Kind.FILES:
        return tuple(Path(file) for file in _listed(given))
    text = "yes" if given is True else "no" if given is False else str(given)
    match setting.kind:
        case Kind.WORD:
            return _word(setting, text, origin)
        case Kind.WORDS:
            words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
            if setting.default and not words:
                raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
            return words
        case Kind.COUNT:
            if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and int(text) >= 1):  # noqa: PLR2004
                raise UsageError(f"'{text}' is not {setting.kind.value}.", where=origin)
            return int(text)
        case Kind.FLAG:
            if text.lower() not in _YES | _NO:
                raise UsageError(f"'{text}' is neither yes nor no.", where=origin)
            return text.lower() in _YES
        case Kind.FILE | Kind.FOLDER:
            return Path(text)
    raise AssertionError(setting.kind)


def _listed(given: object) -> list[str]:
    """Files as options give them, one each; in an environment variable they are separated as PATH's folders are."""
    return [str(file) for file in given] if isinstance(given, (list, tuple)) else str(given).split(os.pathsep)


def _word(setting: Setting, text: str, origin: str) -> str:
    if setting.choices and text not in setting.choices:
        raise UnknownNameError.of(setting.name, text, list(setting.choices), where=origin)
    if not text:
        raise UsageError("the value is empty.", where=origin, next_step=f"It is {setting.help}.")
    return text
