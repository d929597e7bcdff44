"""What is asked of an OCI runtime in its own words: a bundle's linux.resources and annotations, and parts later.

A CRI runtime says in every update all that was asked for so far. `runc update` and its like are used by people, who
name what is to change: all else has to stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memqos.engine.translate.resources import OciResources

__all__ = ["UNIT_PROPERTY", "OciRequest", "ToldBy"]

UNIT_PROPERTY = "org.systemd.property."
"""What annotations begin with that runc and crun make properties of a unit. Source: runc docs/systemd.md."""

_NUMBER = "uint64 "

_OPTIONS: Mapping[str, str] = {
    "memory_limit": "--memory",
    "memory_swap": "--memory-swap",
    "memory_reservation": "--memory-reservation",
    "cpu_shares": "--cpu-share",
    "cpu_quota": "--cpu-quota",
    "cpu_period": "--cpu-period",
    "cpus": "--cpuset-cpus",
    "mems": "--cpuset-mems",
}
"""Fields of linux.resources that `update` has an option for, in runc and in crun."""


class ToldBy(StrEnum):
    """How `update` is told: a document on its standard input or in a file, or options, which know no unified."""

    DOCUMENT = "document"
    FILE = "file"
    OPTIONS = "options"


@dataclass(frozen=True, slots=True, kw_only=True)
class OciRequest:
    """One container's creation, or one update of it.

    resources: of an update what it names, and no more. annotations: of config.json, at creation. told_by: of an update.
    """

    resources: OciResources = field(default_factory=OciResources)
    annotations: Mapping[str, str] = field(default_factory=dict)
    told_by: ToldBy = ToldBy.DOCUMENT

    @property
    def unit_properties(self) -> Mapping[str, int]:
        """What annotations ask of the unit, by the names of properties: numbers such as amounts in bytes.

        ValueError for one of another kind.
        """
        asked = {name: text for name, text in self.annotations.items() if name.startswith(UNIT_PROPERTY)}
        for name, text in asked.items():
            if not (text.startswith(_NUMBER) and text.removeprefix(_NUMBER).isdecimal()):
                raise ValueError(f"the annotation {name} is none of a number, as 'uint64 1048576' is")
        return {name.removeprefix(UNIT_PROPERTY): int(text.removeprefix(_NUMBER)) for name, text in asked.items()}

    def told(self, file: str) -> tuple[str, ...]:
        """The options of `update`; file: where its document is, if it is told by one.

        An amount of -1 would be taken for an option of its own if it stood apart.
        """
        if self.told_by is not ToldBy.OPTIONS:
            return "--resources", file if self.told_by is ToldBy.FILE else "-"
        given = {option: getattr(self.resources, name) for name, option in _OPTIONS.items()}
        return tuple(f"{option}={value}" for option, value in given.items() if value is not None)
