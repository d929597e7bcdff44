"""The options that say what runs the containers of a node: shared by the pages that plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.translate.systemd import SYSTEMD
from memqos.engine.translate.versions import (
    BUNDLES,
    CRI_RUNTIMES,
    DRIVEN_DIRECTLY,
    TRIXIE,
    Feature,
    RuntimeName,
    Runtimes,
    Traits,
    traits_of,
)
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import NodeFacts

__all__ = ["RuntimeOptions", "runtime_options", "runtime_told", "runtimes_named"]

_OLDEST_SYSTEMD = 240
_NAMED = (*CRI_RUNTIMES, *DRIVEN_DIRECTLY)
# A plus sign is also part of Debian's versions: only one before a runtime's name separates.
_BETWEEN = re.compile(rf"\+(?=(?:{'|'.join(_NAMED)})(?:@|$))")
_DIRECTLY = "oci:"
"""Before an OCI runtime that is driven without a CRI runtime."""
_EXAMPLE = "Write NAME@VERSION, such as runc@1.1.15, crun@1.21 or containerd@1.7.24+runc@1.3.6."

_OPTIONS = (
    click.option(
        "--runtime",
        metavar="NAME@VERSION",
        help="What runs the containers, such as runc@1.3.6, cri-o@1.36+crun@1.21, or oci:runc@1.3.6 without a CRI "
        "runtime; else containerd 1.7.24 with runc 1.1.15.",
    ),
    click.option(
        "--systemd",
        type=click.IntRange(_OLDEST_SYSTEMD),
        metavar="VERSION",
        help=f"The version of systemd; {SYSTEMD} unless told.",
    ),
    click.option("--hugetlb", is_flag=True, help="containerd passes huge page limits on (by default it does not)."),
    click.option(
        "--weight",
        type=click.Choice([conversion.value for conversion in WeightConversion]),
        help="How the OCI runtime makes cpu.weight, without naming one: quadratic from runc 1.3.2 and crun 1.23 on.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What was said about the runtimes; None where nothing was."""

    runtime: str | None = None
    systemd: int | None = None
    hugetlb: bool = False
    weight: str | None = None

    def runtimes(self, recorded: Mapping[str, str] | None = None, *, hugetlb: bool = False) -> Runtimes:
        """The runtimes: an option wins over what is `recorded` (name to version, "" for one that is not known).

        hugetlb: whether the recorded containerd passes huge page limits on. What neither says is Debian trixie's, and
        of a recorded node not known.

        Raises UsageError for something that is no name and version, or for --weight beside --runtime.
        """
        if self.weight is not None and self.runtime is not None:
            raise UsageError("--weight is for a runtime without a name: --runtime says it already.", where="--weight")
        found = TRIXIE if recorded is None else _recorded(recorded)
        if self.runtime is not None:
            found = runtimes_named(self.runtime, found)
        if self.weight is not None:
            found = replace(found, oci=_weighing(found.oci, WeightConversion(self.weight)))
        systemd = self.systemd or int((recorded or {}).get("systemd", SYSTEMD))
        return replace(found, systemd=systemd, hugetlb=self.hugetlb or hugetlb)


def runtimes_named(text: str, beside: Runtimes = TRIXIE) -> Runtimes:
    """The runtimes in a text like "cri-o@1.36+crun@1.21"; what it does not name is taken from `beside`.

    Raises UnknownNameError for another runtime, UsageError for a missing version or two runtimes of a kind.
    """
    directly = text.startswith(_DIRECTLY)
    found = [_traits(part) for part in _BETWEEN.split(text.removeprefix(_DIRECTLY))]
    cri = [*([BUNDLES] if directly else []), *(one for one in found if one.runtime in CRI_RUNTIMES)]
    oci = [one for one in found if one.runtime not in CRI_RUNTIMES]
    if len(cri) > 1 or len(oci) > 1:
        raise UsageError(f"'{text}' names two runtimes of one kind.", where="--runtime", next_step=_EXAMPLE)
    return replace(beside, cri=cri[0] if cri else beside.cri, oci=oci[0] if oci else beside.oci)


def runtime_told(node: NodeFacts) -> dict[str, str] | None:
    """The CRI runtime that a Node object names ("containerd://2.1.4"), None where nothing does, or for another one.

    The OCI runtime below it is in no Node: its version is not known then.
    """
    name, found, version = node.runtime.partition("://")
    return {name: version} if found and name in CRI_RUNTIMES else None


def runtime_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make a `RuntimeOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _recorded(recorded: Mapping[str, str]) -> Runtimes:
    found = Runtimes(cri=traits_of(RuntimeName.CONTAINERD, ""), oci=traits_of(RuntimeName.RUNC, ""))
    for name, version in recorded.items():
        if name in _NAMED:
            traits = traits_of(name, version)
            found = replace(found, cri=traits) if traits.runtime in CRI_RUNTIMES else replace(found, oci=traits)
    return found


def _weighing(oci: Traits, conversion: WeightConversion) -> Traits:
    """The OCI runtime that makes weights in this way, whatever its version."""
    weight = {Feature.QUADRATIC_WEIGHT}
    features = oci.features | weight if conversion is WeightConversion.QUADRATIC else oci.features - weight
    return replace(
        oci, features=features, in_doubt=oci.in_doubt - weight, called=f"a runtime with {conversion} weights"
    )


def _traits(text: str) -> Traits:
    name, _, version = text.partition("@")
    if name not in _NAMED:
        raise UnknownNameError.of("runtime", name, [runtime.value for runtime in _NAMED], where="--runtime")
    if not re.match(r"(?:v|release-)?\d", version, re.ASCII):
        raise UsageError(f"'{text}' has no version.", where="--runtime", next_step=_EXAMPLE)
    return traits_of(name, version)
