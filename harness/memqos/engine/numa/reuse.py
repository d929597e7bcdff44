"""Memory of init containers that later containers of the same pod use again.

Source: kubelet `policy_static.go` (updatePodReusableMemory, updateInitContainersMemoryBlocks). Since 1.22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memqos.engine.numa.policies import Policies
from memqos.engine.numa.requests import is_reusable
from memqos.engine.numa.zone_table import Block, Blocks, ZoneTable
from memqos.model.pod import Pod

__all__ = ["NOTHING_REUSABLE", "Reusable", "shrink_init_containers"]


@dataclass(frozen=True, slots=True)
class Reusable:
    """What the containers placed so far leave for the next one of the same pod, in bytes.

    amounts: (zones, memory type) to bytes. The zones are an exact set: memory of zone 0 is nothing to a container
    that is placed on zones 0 and 1.
    """

    amounts: Mapping[tuple[tuple[int, ...], str], int] = field(default_factory=dict)

    def of(self, zones: tuple[int, ...], kind: str) -> int:
        """Bytes of a type that can be used again on exactly these zones."""
        return self.amounts.get((zones, kind), 0)

    def on(self, kind: str) -> dict[tuple[int, ...], int]:
        """Bytes of a type by the zones that they are on; nothing where nothing is left."""
        return {zones: amount for (zones, of), amount in self.amounts.items() if of == kind and amount}

    def after(self, blocks: Blocks, *, left_over: bool) -> Reusable:
        """With a container placed: it leaves its memory (a regular init container), or uses up what there is.

        Init containers run one after the other, so the largest one counts.
        """
        amounts = dict(self.amounts)
        for block in blocks:
            key = (block.zones, block.kind)
            known = amounts.get(key, 0)
            amounts[key] = max(known, block.size) if left_over else max(known - block.size, 0)
        return Reusable(amounts)


NOTHING_REUSABLE = Reusable()


def shrink_init_containers(table: ZoneTable, pod: Pod, container: str, blocks: Blocks, policies: Policies) -> ZoneTable:
    """The table with earlier init containers' blocks smaller by what this container uses of them, down to 0.

    So the sizes of a pod's blocks add up to what was taken for the pod. Sidecars keep theirs.
    """
    left = {block: block.size for block in blocks}
    for earlier in pod.init_containers:
        if earlier.name == container:
            break
        held = table.blocks(pod.uid, earlier.name)
        if held and is_reusable(pod, earlier.name, policies):
            table = table.holding(pod.uid, earlier.name, tuple(_shrunk(one, left) for one in held))
    return table


def _shrunk(held: Block, left: dict[Block, int]) -> Block:
    """One block after its share is used; `left` is what the using container still has to find, and is updated."""
    for block, size in left.items():
        if block.kind == held.kind and block.zones == held.zones:
            share = min(size, held.size)
            left[block] = size - share
            held = Block(held.zones, held.kind, held.size - share)
    return held
