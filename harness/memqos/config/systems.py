"""The systems under test that settings choose: each sort of machine with each runtime under each cgroup driver."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

from memqos.config.settings import Settings
from memqos.config.table import oci_runtime
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver

__all__ = ["SystemKey", "address_of", "one_oci_runtime", "systems_of"]


class SystemKey(NamedTuple):
    """One system under test: a column of the matrix.

    profile, topology: of the machine; of one that is there its address, and ""; of one from a disk image that file's
    name, and the topology. runtime: as places offer it.
    """

    profile: str
    topology: str
    runtime: str
    driver: CgroupDriver

    @property
    def place(self) -> tuple[str, str]:
        """The sort of machine."""
        return self.profile, self.topology

    def __str__(self) -> str:
        """For people: trixie/two-zones, containerd+runc, systemd driver."""
        return f"{'/'.join(word for word in self.place if word)}, {self.runtime}, {self.driver} driver"

    def named(self, *, apart_from: tuple[SystemKey, ...], with_place: bool = False) -> str:
        """What tells it apart from the others: the parts that are not all the same, and its machine if asked for."""
        topology = Path(self.topology).stem
        parts = (self.profile, topology, self.runtime, str(self.driver))
        told = [len({system[place] for system in apart_from}) > 1 for place in range(len(parts))]
        told[0] |= with_place
        told[1] = with_place
        return "-".join(part for part, is_told in zip(parts, told, strict=True) if is_told and part)


def systems_of(settings: Settings, *, profile: str = "", topology: str = "") -> tuple[SystemKey, ...]:
    """Every system of a run, the runtimes of one machine after another; profile, topology: in place of the settings'.

    A machine that is there is what it is, whatever is asked for in its place.
    """
    if settings.target:
        places = [(address_of(settings.target), "")]
    elif settings.image:
        places = [(settings.image.name, topology or settings.topology)]
    else:
        profiles = (profile,) if profile else settings.profile
        places = [(one, topology or settings.topology) for one in profiles]
    found = product(places, settings.runtime, settings.driver)
    return tuple(SystemKey(*place, runtime, driver) for place, runtime, driver in found)


def address_of(url: str) -> str:
    """A machine that is there by its address, without what leads to it."""
    return url.partition("?")[0]


def one_oci_runtime(settings: Settings, *, option: str) -> str:
    """The one OCI runtime that an option is about; UsageError if --runtime names several."""
    names = list(dict.fromkeys(oci_runtime(one) for one in settings.runtime))
    if len(names) > 1:
        raise UsageError(
            f"it is about one OCI runtime, and {settings.origins['runtime']} names {' and '.join(names)}.",
            where=option,
            next_step="Run once for each of them.",
        )
    return names[0]
