"""The options that describe a node, its kubelet, its runtimes and containers' usage; shared by the pages that plan.

The kubelet's release and configuration files are options of each page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.node_facts import PAGE_SIZES, load_facts, numa_nodes_of
from memqos.catalog.runtimes import oci_named, runtimes_named, runtimes_recorded
from memqos.catalog.schema import LARGEST
from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.releases.release import Variant
from memqos.engine.translate.annotations import NEW_UNIFIED, OLD_UNIFIED
from memqos.engine.translate.runtimes import TRIXIE, Allowance, Handler, Runtimes
from memqos.engine.translate.systemd import SYSTEMD
from memqos.engine.translate.versions import CRI_RUNTIMES, Feature, RuntimeName, Traits, traits_of
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts
from memqos.model.quantity import Quantity, QuantityError

__all__ = [
    "KubeletOptions",
    "NodeOptions",
    "RuntimeOptions",
    "kubelet_options",
    "node_options",
    "runtime_of_node",
    "runtime_options",
    "said_of_containers",
    "size_of",
    "usage_of",
]

_DEFAULT = NodeFacts(memory=8 << 30, cpus=4, origin="node (options)")

_NODE_OPTIONS = (
    click.option(
        "--node",
        "node_file",
        metavar="FILE",
        help="Facts of the node: memory, swap, cpus, pageSize, numaNodes …",
    ),
    click.option("--capacity-memory", metavar="SIZE", help="The node's memory (MemTotal). Default: 8Gi."),
    click.option("--swap", metavar="SIZE", help="The node's swap (SwapTotal). Default: none."),
    click.option("--cpus", type=click.IntRange(1, 8192), help="The node's CPUs. Default: 4."),
    click.option(
        "--page-size",
        type=click.Choice([str(size) for size in PAGE_SIZES]),
        help="Bytes of a memory page. Default: 4096.",
    ),
    click.option(
        "--numa-nodes",
        "--zones",
        "numa_nodes",
        metavar="SIZE,…",
        help="The memory of each NUMA node, such as 4Gi,4Gi. --zones is the former name.",
    ),
    click.option(
        "--cgroup",
        type=click.Choice([version.value for version in CgroupVersion]),
        help="The cgroup version that the node mounts. Default: v2.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options about the node; None for one that is not given."""

    node_file: str | None = None
    capacity_memory: str | None = None
    swap: str | None = None
    cpus: int | None = None
    page_size: str | None = None
    numa_nodes: str | None = None
    cgroup: str | None = None

    @property
    def said(self) -> bool:
        """Whether the node's size is given: a node of assumed size has room for every pod."""
        return any((self.node_file, self.capacity_memory, self.cpus, self.numa_nodes))

    def facts(self, recorded: NodeFacts | None = None) -> NodeFacts:
        """The node: options override the file, the file overrides `recorded`, and that overrides the defaults.

        Raises UsageError for a wrong size, ManifestError for a wrong file.
        """
        facts = load_facts(self.node_file) if self.node_file else recorded or _DEFAULT
        changes: dict[str, Any] = {}
        if self.numa_nodes is not None:
            changes["numa_nodes"] = numa_nodes_of(self.numa_nodes, "--numa-nodes")
            if self.node_file is None:
                changes["memory"] = sum(numa.memory for numa in changes["numa_nodes"])
        if self.capacity_memory is not None:
            changes["memory"] = size_of("--capacity-memory", self.capacity_memory, least=1)
        if self.swap is not None:
            changes["swap"] = size_of("--swap", self.swap, least=0)
        if self.cpus is not None:
            changes["cpus"] = self.cpus
        if self.page_size is not None:
            changes["page_size"] = int(self.page_size)
        if self.cgroup is not None:
            changes["cgroup_version"] = CgroupVersion(self.cgroup)
        facts = replace(facts, **changes)
        if sum(numa.memory for numa in facts.numa_nodes) > facts.memory or facts.memory < 1:
            raise UsageError(
                f"the NUMA nodes together have {sum(numa.memory for numa in facts.numa_nodes)} bytes of memory, "
                f"but the machine has {facts.memory}.",
                where="--numa-nodes",
                next_step="Give the machine at least as much memory as its NUMA nodes, and at least one byte.",
            )
        return facts


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make a `NodeOptions`."""
    for option in reversed(_NODE_OPTIONS):
        command = option(command)
    return command


def size_of(option: str, text: str, *, least: int) -> int:
    """An option's bytes. Raises UsageError for a text that is no quantity, and for less than `least`."""
    try:
        size = Quantity.parse(text).value
    except QuantityError as error:
        raise UsageError(f"{error}.", where=option, next_step="Write a size such as 8Gi.") from None
    if size == LARGEST:
        raise UsageError(
            f"'{text[:40]}' is more than any machine has.", where=option, next_step="Write a size such as 8Gi."
        )
    if size < least:
        raise UsageError(f"'{text}' is less than {least}.", where=option, next_step="Write a size such as 8Gi.")
    return size


_KUBELET_OPTIONS = (
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a field of the configuration, such as featureGates.MemoryQoS=true; may be repeated.",
    ),
    click.option(
        "--kubelet-flags",
        "flags",
        multiple=True,
        metavar="FILE|FLAGS",
        help="The kubelet's command line flags, which override its configuration: a systemd unit or drop-in, a file "
        "with KUBELET_EXTRA_ARGS=…, /proc/PID/cmdline, or the flags themselves; may be repeated.",
    ),
    click.option(
        "--driver",
        type=click.Choice([driver.value for driver in CgroupDriver]),
        help="The cgroup driver. Default: the one that the runtime reports, if the release asks it (CRI-O: systemd), "
        "else the configured one, else cgroupfs.",
    ),
    click.option(
        "--as",
        "variant",
        type=click.Choice([variant.value for variant in Variant]),
        default=Variant.SHIPPED.value,
        show_default=True,
        help="Which rules apply where several exist: the release's own code (shipped), that code with later fixes "
        "(mended: memory QoS in a resize under 1.37), the text of the enhancement proposal (documented), or the Memory "
        "Manager's draft of 2020, which differs only for NUMA nodes (draft).",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """The options about the kubelet; a driver of None is the configured one."""

    overrides: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    driver: str | None = None
    variant: str = Variant.SHIPPED.value

    @property
    def cgroup_driver(self) -> CgroupDriver | None:
        """The given driver, None without one."""
        return CgroupDriver(self.driver) if self.driver else None

    @property
    def followed(self) -> Variant:
        """Which rules apply: the code's or the text's."""
        return Variant(self.variant)

    def settings(self, config: str | Sequence[str] | None) -> KubeletSettings:
        """The configuration in these files and folders (None: an empty one), overridden by flags and --set.

        Errors as `load_settings`.
        """
        return load_settings(config, self.overrides, self.flags)

    def kubelet(
        self,
        settings: KubeletSettings,
        *,
        node: NodeFacts,
        release: str,
        runtimes: Runtimes,
        shown: CgroupDriver | None = None,
    ) -> Kubelet:
        """The kubelet of this release with these settings; UnknownNameError for a release without rules.

        shown: the driver by the names of its cgroups. It overrides any configuration, since the runtime may have
        reported it.
        """
        return Kubelet.of(
            node=node,
            settings=settings,
            release=release,
            driver=self.cgroup_driver or shown,
            variant=self.followed,
            runtimes=runtimes,
        )


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make `KubeletOptions`."""
    for option in reversed(_KUBELET_OPTIONS):
        command = option(command)
    return command


def usage_of(
    texts: tuple[str, ...], plan: Plan, node: NodeFacts, *, is_known: bool = False
) -> dict[tuple[str, str], int]:
    """What containers use, from texts like "web/app=200Mi".

    is_known: whether the size of the node is known. If so, all together must fit on it, else each alone.
    Raises UnknownNameError for a container that the plan does not have, UsageError for a container named twice and for
    more than the node's memory and swap.
    """
    room = node.memory + node.swap
    found: dict[tuple[str, str], int] = {}
    for key, text in said_of_containers(texts, plan, "--usage"):
        found[key] = size_of("--usage", text, least=0)
        used = sum(found.values()) if is_known else found[key]
        if used > room:
            together = "with the containers before it" if used > found[key] else "it"
            raise UsageError(
                f"'{text}': {together} uses {used} bytes, but the node has {room} of memory and swap.",
                where="--usage",
                next_step="Set the node's size with --capacity-memory and --swap.",
            )
    return found


def said_of_containers(texts: tuple[str, ...], plan: Plan, option: str) -> Iterator[tuple[tuple[str, str], str]]:
    """(pod uid, container name) of each named container, and its value.

    Raises UnknownNameError for a container that the plan does not have, UsageError for a container named twice.
    """
    known = {
        f"{pod.namespace}/{pod.name}/{container.name}": (pod.uid, container.name)
        for pod in plan.pods
        for container in pod.containers
    }
    seen: set[str] = set()
    for text in texts:
        name, _, said = text.partition("=")
        full = name if name.count("/") > 1 else f"default/{name}"
        if full not in known:
            raise UnknownNameError.of("container", name, list(known), where=option)
        if full in seen:
            raise UsageError(f"'{name}' is given twice.", where=option)
        seen.add(full)
        yield known[full], said


_OLDEST_SYSTEMD = 240
_CLASS_EXAMPLE = "Write NAME=RUNTIME, such as gvisor=runsc@20240729 or kata-qemu=kata@3.20."

_RUNTIME_OPTIONS = (
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


def runtime_of_node(node: NodeFacts) -> dict[str, str] | None:
    """The CRI runtime in a Node object ("containerd://2.1.4"), None if it has none.

    A Node object does not name the OCI runtime, so its version is unknown.
    """
    name, found, version = node.runtime.partition("://")
    if not (found and name):
        return None
    return {name: version} if name in CRI_RUNTIMES else {RuntimeName.OTHER_CRI.value: f"{name} {version}"}


def runtime_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make a `RuntimeOptions`."""
    for option in reversed(_RUNTIME_OPTIONS):
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


def need_releases(runtimes: Runtimes) -> None:
    """Raise UsageError for a version that is not exact enough: a translation needs one release."""
    for one in (runtimes.cri, runtimes.oci):
        if one.in_doubt:
            raise UsageError(
                f"not every release that '{one}' can mean {sorted(one.in_doubt)[0]}.",
                where="--runtime",
                next_step="Name one release in full, such as runc@1.1.15.",
            )
