"""The systems under test from the settings: each kind of machine with each runtime under each cgroup driver."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from memqos.config.runtime_files import RuntimeFile, without_paths
from memqos.config.settings import Settings
from memqos.config.table import oci_runtime, runtime_prefix
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from memqos.model.topology import topology_name

__all__ = ["SystemKey", "address_of", "named_runtime_files", "one_oci_runtime", "systems_of", "with_another_runtime"]


class SystemKey(NamedTuple):
    """One system under test: a column of the matrix.

    profile, topology: of the machine; for an existing one its address, and ""; for one from a disk image that file's
    name, and the topology. runtime: in the places' notation.
    """

    profile: str
    topology: str
    runtime: str
    driver: CgroupDriver

    @property
    def place(self) -> tuple[str, str]:
        """The kind of machine."""
        return self.profile, self.topology

    def __str__(self) -> str:
        """For people: trixie/two-numa-nodes, containerd+runc, systemd driver."""
        return f"{'/'.join(word for word in self.place if word)}, {self.runtime}, {self.driver} driver"

    def named(self, *, apart_from: tuple[SystemKey, ...], with_place: bool = False) -> str:
        """What distinguishes it from the others: the parts that differ, and its machine if requested."""
        topology = Path(self.topology).stem
        parts = (self.profile, topology, self.runtime, str(self.driver))
        told = [len({system[place] for system in apart_from}) > 1 for place in range(len(parts))]
        told[0] |= with_place
        told[1] = with_place
        return "-".join(part for part, is_told in zip(parts, told, strict=True) if is_told and part)


def systems_of(settings: Settings, *, profile: str = "", topology: str = "") -> tuple[SystemKey, ...]:
    """Every system of a run, the runtimes of one machine after another; profile, topology: replace the settings'.

    An existing machine ignores both.
    """
    topology = topology_name(topology or settings.topology)
    if settings.target:
        places = [(address_of(settings.target), "")]
    elif settings.image:
        places = [(settings.image.name, topology)]
    else:
        profiles = (profile,) if profile else settings.profile
        places = [(one, topology) for one in profiles]
    found = product(places, settings.runtime, settings.driver)
    return tuple(SystemKey(*place, runtime, driver) for place, runtime, driver in found)


def address_of(url: str) -> str:
    """The address of an existing machine, without the way to it."""
    return url.partition("?")[0]


def one_oci_runtime(settings: Settings, *, option: str) -> str:
    """The single OCI runtime for an option; UsageError if --runtime names several."""
    names = list(dict.fromkeys(oci_runtime(one) for one in settings.runtime))
    if len(names) > 1:
        raise UsageError(
            f"it is about one OCI runtime, and {settings.origins['runtime']} names {' and '.join(names)}.",
            where=option,
            next_step="Run once for each of them.",
        )
    return names[0]


def named_runtime_files(settings: Settings) -> tuple[RuntimeFile, ...]:
    """The files of OCI runtimes, each with a name of --runtime; one without a name has that of the only runtime.

    Raises UsageError for a name that no runtime has, for two files of one name, and for a missing name among several.
    """
    names = list(dict.fromkeys(oci_runtime(one) for one in settings.runtime))
    found: dict[str, RuntimeFile] = {}
    for file in settings.runtime_binary:
        if not file.name and len(names) > 1:
            raise UsageError(
                f"'{file.path}' could be {' or '.join(names)}, which {settings.origins['runtime']} names.",
                where=file.option,
                next_step=f"Name it: {names[0]}={file.path}.",
            )
        name = file.name or names[0]
        if name not in names:
            raise UsageError(
                f"'{file}': no runtime of the run is called {name}, only {' and '.join(names)}.",
                where=file.option,
                next_step=f"Add it: --runtime oci:{name}, or containerd+{name}.",
            )
        if name in found:
            raise UsageError(
                f"'{found[name].path}' and '{file.path}' would both be {name}.",
                where=file.option,
                next_step="Give only one, or rename the other: NAME=PATH, with --runtime oci:NAME.",
            )
        found[name] = replace(file, name=name)
    return tuple(found.values())


def with_another_runtime(settings: Settings, runtime: str, *, option: str) -> tuple[Settings, Settings]:
    """The settings with their one runtime, and the same with another one, a name or a path.

    The files of both are in the second if the other one has a file: then the first has only its own.
    option: where the other one is given. Raises UsageError for the same runtime, and for an invalid path.
    """
    [mine] = settings.runtime
    name = f"oci:{runtime}" if mine.startswith("oci:") and not runtime_prefix(runtime) else runtime
    [other], files = without_paths([name if runtime_prefix(name) else f"containerd+{name}"], option)
    if other == mine:
        raise UsageError(f"{option} names the runtime itself, {mine}.", next_step="Name another one.")
    named = [replace(file, name=file.name or oci_runtime(mine)) for file in settings.runtime_binary]
    own = [file for file in named if file.name != oci_runtime(other)]
    if not files and len(own) == len(named):
        return settings, replace(settings, runtime=(other,))
    return replace(settings, runtime_binary=tuple(own)), replace(
        settings, runtime=(other,), runtime_binary=(*named, *files)
    )
