"""The options that describe the runtimes of a node; shared by the pages that plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from memqos.catalog.runtimes import oci_named, runtimes_named, runtimes_recorded
from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.translate.annotations import NEW_UNIFIED, OLD_UNIFIED
from memqos.engine.translate.runtime_config import Allowance
from memqos.engine.translate.systemd import SYSTEMD
from memqos.engine.translate.versions import (
    CRI_RUNTIMES,
    TRIXIE,
    Feature,
    Handler,
    RuntimeName,
    Runtimes,
    Traits,
    traits_of,
)
from memqos.errors import UsageError
from memqos.model.node import NodeFacts

__all__ = ["RuntimeOptions", "runtime_options", "runtime_told"]

_OLDEST_SYSTEMD = 240
_CLASS_EXAMPLE = "Write NAME=RUNTIME, such as gvisor=runsc@20240729 or kata-qemu=kata@3.20."

_OPTIONS = (
    click.option(
        "--runtime",
        metavar="NAME@VERSION",
        help="The container runtimes, such as runc@1.3.6, cri-o@1.36+crun@1.21, containerd@2.1.9+runsc@20260817, or "
        "oci:runc@1.3.6 without a CRI runtime. Default: containerd 1.7.24 with runc 1.1.15. A runtime that is not "
        "modelled (youki, sysbox-runc …) follows the OCI runtime specification alone.",
    ),
    click.option(
        "--runtime-class",
        "runtime_class",
        multiple=True,
        metavar="NAME=RUNTIME",
        help="The OCI runtime of pods with this RuntimeClass, such as gvisor=runsc@20240729. May be repeated.",
    ),
    click.option(
        "--crio-config",
        "crio_config",
        multiple=True,
        metavar="FILE",
        help="CRI-O's configuration (crio.conf, or a folder of drop-ins): handlers, their allowed annotations, "
        "workloads, and cgroup_manager, the driver from 1.31 on. May be repeated; later files override earlier ones.",
    ),
    click.option(
        "--allowed-annotation",
        "allowed_annotation",
        multiple=True,
        metavar="NAME",
        help="An annotation that the CRI runtime's configuration allows, such as unified-cgroup.crio.io (CRI-O's "
        "allowed_annotations) or org.systemd.property.* (containerd's pod_annotations). May be repeated.",
    ),
    click.option(
        "--systemd",
        type=click.IntRange(_OLDEST_SYSTEMD),
        metavar="VERSION",
        help=f"The version of systemd. Default: {SYSTEMD}.",
    ),
    click.option(
        "--hugetlb", is_flag=True, help="containerd is configured to pass huge page limits on (by default it is not)."
    ),
    click.option(
        "--weight",
        type=click.Choice([conversion.value for conversion in WeightConversion]),
        help="How the OCI runtime computes cpu.weight, without naming a runtime: quadratic from runc 1.3.2 and crun "
        "1.23 on.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The options about the runtimes; None or empty for those that are not given."""

    runtime: str | None = None
    runtime_class: tuple[str, ...] = ()
    crio_config: tuple[str, ...] = ()
    allowed_annotation: tuple[str, ...] = ()
    systemd: int | None = None
    hugetlb: bool = False
    weight: str | None = None

    def runtimes(self, recorded: Mapping[str, str] | None = None, *, hugetlb: bool = False) -> Runtimes:
        """The runtimes: an option overrides `recorded` (name to version, "" for an unknown one).

        hugetlb: whether the recorded containerd passes huge page limits on. The default is Debian trixie's runtimes.
        For a recorded node, what the recording lacks is unknown, also which annotations its runtime acts on.

        Raises UsageError for a malformed name and version, for --weight together with --runtime, and for a
        configuration of CRI-O that cannot be read or is given for another runtime.
        """
        if self.weight is not None and self.runtime is not None:
            raise UsageError(
                "--weight describes an unnamed runtime: --runtime already determines it.", where="--weight"
            )
        found = TRIXIE if recorded is None else runtimes_recorded(recorded)
        if self.runtime is not None:
            found = runtimes_named(self.runtime, found)
        if self.weight is not None:
            found = replace(found, oci=_weighing(found.oci, WeightConversion(self.weight)))
        systemd = self.systemd or int((recorded or {}).get("systemd", SYSTEMD))
        found = replace(found, systemd=systemd, hugetlb=self.hugetlb or hugetlb)
        if self.crio_config:
            found = self._configured(found)
        known = recorded is None or bool(self.crio_config or self.allowed_annotation)
        given = tuple(_known_name(name, found.cri) for name in self.allowed_annotation)
        allowance = replace(found.allowance, allowed=(*found.allowance.allowed, *given), known=known)
        handlers = {name: _allowing(one, given) for name, one in found.handlers.items()}
        return replace(found, allowance=allowance, handlers={**handlers, **dict(map(_class, self.runtime_class))})

    def _configured(self, found: Runtimes) -> Runtimes:
        """The runtimes with CRI-O's own configuration."""
        from memqos.catalog.runtimes import load_crio_config

        if found.cri.runtime is not RuntimeName.CRIO:
            if self.runtime is not None and "+" in self.runtime:
                raise UsageError(
                    f"{found.cri} does not read CRI-O's configuration.", where="--crio-config", next_step="Name cri-o."
                )
            found = replace(found, cri=traits_of(RuntimeName.CRIO, ""))
        config = load_crio_config(self.crio_config)
        default = config.default or (found.oci.runtime.value if found.oci.runtime.value in config.handlers else "")
        own = config.handlers.get(default)
        if own is not None and own.program and self.runtime is None:
            found = replace(found, oci=oci_named(own.program))
        handlers = {
            name: Handler(
                oci=oci_named(one.program) if one.program else found.oci,
                allowance=Allowance(allowed=one.allowed, workloads=config.workloads),
            )
            for name, one in config.handlers.items()
        }
        allowed = () if own is None else own.allowed
        allowance = Allowance(allowed=allowed, workloads=config.workloads)
        return replace(found, allowance=allowance, handlers=handlers, crio=config.settings)


def runtime_told(node: NodeFacts) -> dict[str, str] | None:
    """The CRI runtime in a Node object ("containerd://2.1.4"), None if it has none.

    A Node object does not name the OCI runtime, so its version is unknown.
    """
    name, found, version = node.runtime.partition("://")
    if not (found and name):
        return None
    return {name: version} if name in CRI_RUNTIMES else {RuntimeName.OTHER_CRI.value: f"{name} {version}"}


def runtime_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make a `RuntimeOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _allowing(handler: Handler, names: tuple[str, ...]) -> Handler:
    """The same handler with more annotations allowed."""
    if handler.allowance is None or not names:
        return handler
    return replace(handler, allowance=replace(handler.allowance, allowed=(*handler.allowance.allowed, *names)))


def _class(text: str) -> tuple[str, Handler]:
    """The class and its handler from "gvisor=runsc@20240729". Raises UsageError for another form."""
    name, mark, runtime = text.partition("=")
    if not (name and mark and runtime):
        raise UsageError(f"'{text[:80]}' is not NAME=RUNTIME.", where="--runtime-class", next_step=_CLASS_EXAMPLE)
    return name, Handler(oci=oci_named(runtime, where="--runtime-class"))


def _known_name(name: str, cri: Traits) -> str:
    """An annotation by its name in this version of CRI-O: before 1.35 the older name.

    Raises UsageError for the full name of a pod's annotation, which CRI-O does not accept here.
    """
    for base in (OLD_UNIFIED, NEW_UNIFIED):
        if name.startswith((f"{base}.", f"{base}/")):
            step = f"Give {base}: it allows the annotation for every container."
            raise UsageError(
                f"CRI-O accepts no annotation name '{name[:120]}'.", where="--allowed-annotation", next_step=step
            )
    older = cri.runtime is RuntimeName.CRIO and cri.known(Feature.NEW_ANNOTATIONS) is False
    return OLD_UNIFIED if name == NEW_UNIFIED and older else name


def _weighing(oci: Traits, conversion: WeightConversion) -> Traits:
    """The OCI runtime with this conversion of weights, whatever its version."""
    weight = {Feature.QUADRATIC_WEIGHT}
    features = oci.features | weight if conversion is WeightConversion.QUADRATIC else oci.features - weight
    return replace(
        oci, features=features, in_doubt=oci.in_doubt - weight, called=f"a runtime with {conversion} weights"
    )
