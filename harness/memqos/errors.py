"""Every way memqos can fail, as one tree.

    MemqosError
    ├── UsageError              the user gave something wrong              exit 4
    │   ├── ManifestError       … in a Pod manifest or a kubelet file      exit 4
    │   ├── UnfitFileError      … a file that the machine cannot use       exit 4
    │   └── UnknownNameError    … a release, profile, pod, claim, knob     exit 4
    ├── EnvironmentNotAbleError this host lacks what the work needs        exit 6
    │   ├── MissingProgramError … a program, or too old a version of it    exit 6
    │   ├── EnactorNotAbleError … an enactor that resizes, steers, …       exit 6
    │   └── NoSpaceError        … room on a disk                           exit 6
    ├── MachineryError          VM, ssh, image, runtime call, harness      exit 3
    │   ├── MachineError        … a virtual machine did not do its part    exit 3
    │   │   ├── AbortedError    … QEMU aborted the boot of a machine       exit 3
    │   │   └── WrongStateError … a verb was called in the wrong state     exit 3
    │   ├── DamagedOriginError  … the checkpoint of a machine was damaged  exit 3
    │   ├── ImageError          … an image could not be built              exit 3
    │   ├── TargetError         … a machine could not be reached or read   exit 3
    │   ├── RuntimeCallError    … a container runtime answered an error    exit 3
    │   ├── CgroupFileError     … an interface file does not parse            exit 3
    │   └── DeadlineError       … a named condition was not met in time    exit 3
    └── NonconformanceError     the system under test is wrong             exit 1

The leaves say what happened, where, and what to do next, and keep the data they were made from.
Only `NonconformanceError` is a finding about the system under test: everything else says nothing about it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from enum import IntEnum

__all__ = [
    "AbortedError",
    "CgroupFileError",
    "DamagedOriginError",
    "DeadlineError",
    "EnactorNotAbleError",
    "EnvironmentNotAbleError",
    "ExitCode",
    "ImageError",
    "MachineError",
    "MachineryError",
    "ManifestError",
    "MemqosError",
    "MissingProgramError",
    "NoSpaceError",
    "NonconformanceError",
    "RuntimeCallError",
    "TargetError",
    "UnfitFileError",
    "UnknownNameError",
    "UsageError",
    "WrongStateError",
]


_LONGEST_NAME = 80
_MOST_NAMES = 60
_SHORT_NAME = 4


class ExitCode(IntEnum):
    """The exit codes of memqos; `memqos run` and plain pytest use the same.

    The first six agree with pytest's own codes where both exist; the last is a shell's code for SIGPIPE.
    """

    CONFORMS = 0
    DEVIATES = 1
    INTERRUPTED = 2
    MACHINERY = 3
    USAGE = 4
    NOTHING_OBSERVED = 5
    ENVIRONMENT = 6
    CLOSED_PIPE = 141


class MemqosError(Exception):
    """Base of the tree.

    what: one sentence, subject first, names quoted, values and units shown.
    where: file and line, cgroup path, machine or option; empty when the sentence already says it.
    next_step: what the reader can do about it; empty only where nothing can be done.
    data: what the error was made from, for programs.
    """

    exit_code: ExitCode = ExitCode.MACHINERY

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        next_step: str = "",
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step
        self.data: dict[str, object] = dict(data or {})

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head} {self.next_step}" if self.next_step else head

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields do not survive the default pickling, and xdist sends errors between processes.
        return _rebuild, (type(self), self.what, self.where, self.next_step, self.data)


def _rebuild(kind: type[MemqosError], what: str, where: str, next_step: str, data: dict[str, object]) -> MemqosError:
    error = kind.__new__(kind)
    MemqosError.__init__(error, what, where=where, next_step=next_step, data=data)
    return error


class UsageError(MemqosError):
    """The user gave something wrong: an option, a file, a name."""

    exit_code = ExitCode.USAGE


class ManifestError(UsageError):
    """A Pod manifest or KubeletConfiguration is not what Kubernetes accepts.

    data: file, line (1-based, 0 if unknown), field (dotted path), got.
    """

    @classmethod
    def at(
        cls, what: str, *, file: str, line: int = 0, field: str = "", got: object = None, next_step: str = ""
    ) -> ManifestError:
        """An error at one place of one file; a line of 0 means that the place has no line."""
        where = f"{file}:{line}" if line else file
        if field:
            where = f"{where}: {field}"
        return cls(
            what, where=where, next_step=next_step, data={"file": file, "line": line, "field": field, "got": got}
        )


class UnfitFileError(UsageError):
    """A file that the user brought does not run, install or start in a machine, whatever its topology."""


class UnknownNameError(UsageError):
    """A name that memqos does not know; data keeps the name and the known ones."""

    @classmethod
    def of(cls, kind: str, name: str, known: list[str], *, where: str = "") -> UnknownNameError:
        """'kind' reads as a noun: release, profile, pod, knob. Names that are close to the given one come first.

        Before all, those of which it is the last part: "oci:runsc" for "runsc".
        """
        # One wrong letter is a third of a short word.
        likeness = 0.6 if len(name) <= _SHORT_NAME and name.isalpha() else 0.8
        close = [one for one in known if name and re.split("[+:]", one)[-1] == name]
        close = close or difflib.get_close_matches(name[:_LONGEST_NAME], known, n=3, cutoff=likeness)
        meant = f"Did you mean {' or '.join(repr(one) for one in close)}? " if close else ""
        return cls(
            f"there is no {kind} '{name[:_LONGEST_NAME]}'.",
            where=where,
            next_step=f"{meant}Known: {_listed(known) or 'none'}.",
            data={"kind": kind, "name": name, "known": known},
        )


def _listed(names: list[str]) -> str:
    """Names as a sentence holds them; of the pods of a cluster the first ones are enough."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more} more"


class EnvironmentNotAbleError(MemqosError):
    """This host lacks what the work needs, whatever the system under test."""

    exit_code = ExitCode.ENVIRONMENT


class MissingProgramError(EnvironmentNotAbleError):
    """A program is missing or too old; next_step names the package."""


class EnactorNotAbleError(EnvironmentNotAbleError):
    """The enactor lacks an ability; data: ability. A test that needs it is *not observable*."""


class NoSpaceError(EnvironmentNotAbleError):
    """A disk is too full; data keeps the folder, bytes free and bytes needed."""


class MachineryError(MemqosError):
    """The harness or what it depends on failed: says nothing about the system under test."""


class MachineError(MachineryError):
    """A virtual machine did not do its part; data may keep the console's tail."""


class AbortedError(MachineError):
    """QEMU aborted a boot: it crashed before Linux printed anything, or lost a timer. No test had begun."""


class WrongStateError(MachineError):
    """A machine's verb was called in a state that does not accept it; data: current, accepted."""


class DamagedOriginError(MachineryError):
    """The failure was on a machine from a damaged checkpoint, which has been removed: another attempt may succeed."""


class ImageError(MachineryError):
    """An image could not be built; nothing of it is left in the cache."""


class TargetError(MachineryError):
    """A machine could not be reached, or a command or file access on it failed."""


class RuntimeCallError(MachineryError):
    """A container runtime answered a request with an error; data: method, code, details."""


class CgroupFileError(MachineryError):
    """An interface file does not parse; data: path, line, text."""


class DeadlineError(MachineryError):
    """A named condition was not met in time; data: condition, last, elapsed (seconds)."""


class NonconformanceError(MemqosError):
    """The system under test does not hold or do what the plan says; data: findings."""

    exit_code = ExitCode.DEVIATES
