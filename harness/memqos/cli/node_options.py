"""The options that describe a node; shared by the pages that plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import click

from memqos.catalog.node_facts import PAGE_SIZES, load_facts, zones_of
from memqos.catalog.schema import LARGEST
from memqos.errors import UsageError
from memqos.model.node import CgroupVersion, NodeFacts
from memqos.model.quantity import Quantity, QuantityError

__all__ = ["NodeOptions", "node_options", "size_of"]

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
