"""The options that describe a node, its kubelet and what containers use; shared by the pages that plan.

The kubelet's release and configuration files are options of each page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.node_facts import load_facts, zones_of
from memqos.catalog.page_sizes import PAGE_SIZES
from memqos.catalog.schema import LARGEST
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.releases.release import Variant
from memqos.engine.translate.versions import Runtimes
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion, KubeletSettings, NodeFacts
from memqos.model.quantity import Quantity, QuantityError

__all__ = [
    "KubeletOptions",
    "NodeOptions",
    "kubelet_options",
    "node_options",
    "said_of_containers",
    "size_of",
    "usage_of",
]

_DEFAULT = NodeFacts(memory=8 << 30, cpus=4, origin="node (options)")

_OPTIONS = (
    click.option(
        "--node",
        "node_file",
        metavar="FILE",
        help="Facts of the node: memory, swap, cpus, pageSize, zones (NUMA nodes) …",
    ),
    click.option("--capacity-memory", metavar="SIZE", help="The node's memory (MemTotal). Default: 8Gi."),
    click.option("--swap", metavar="SIZE", help="The node's swap (SwapTotal). Default: none."),
    click.option("--cpus", type=click.IntRange(1, 8192), help="The node's CPUs. Default: 4."),
    click.option(
        "--page-size",
        type=click.Choice([str(size) for size in PAGE_SIZES]),
        help="Bytes of a memory page. Default: 4096.",
    ),
    click.option("--zones", metavar="SIZE,…", help="The memory of each NUMA node, such as 4Gi,4Gi."),
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
    zones: str | None = None
    cgroup: str | None = None

    @property
    def said(self) -> bool:
        """Whether the node's size is given: a node of assumed size has room for every pod."""
        return any((self.node_file, self.capacity_memory, self.cpus, self.zones))

    def facts(self, recorded: NodeFacts | None = None) -> NodeFacts:
        """The node: options override the file, the file overrides `recorded`, and that overrides the defaults.

        Raises UsageError for a wrong size, ManifestError for a wrong file.
        """
        facts = load_facts(self.node_file) if self.node_file else recorded or _DEFAULT
        changes: dict[str, Any] = {}
        if self.zones is not None:
            changes["zones"] = zones_of(self.zones, "--zones")
            if self.node_file is None:
                changes["memory"] = sum(zone.memory for zone in changes["zones"])
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
        if sum(zone.memory for zone in facts.zones) > facts.memory or facts.memory < 1:
            raise UsageError(
                f"the NUMA nodes together have {sum(zone.memory for zone in facts.zones)} bytes of memory, "
                f"but the machine has {facts.memory}.",
                where="--zones",
                next_step="Give the machine at least as much memory as its NUMA nodes, and at least one byte.",
            )
        return facts


def node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make a `NodeOptions`."""
    for option in reversed(_OPTIONS):
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
