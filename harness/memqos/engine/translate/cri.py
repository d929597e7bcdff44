"""What CRI LinuxContainerResources does not say of a container's plan.

The message is the kubelet's own, so it is no translation; but zero and empty mean "not specified" in it, so some of
what a container's files must hold is left to the runtime, and nothing that was said once can be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.plan import ContainerResources, Expected
from memqos.engine.translate.resources import Unsayable
from memqos.model.knob import ABSENT, Knob

__all__ = ["unsaid"]

_WHY: Mapping[Knob, str] = {
    Knob.MEMORY_SWAP_MAX: "the message has no swap limit: the runtime takes a memory limit alone as no swap.",
}


def unsaid(sent: ContainerResources, planned: Mapping[Knob, Expected]) -> tuple[Unsayable, ...]:
    """What is written into the container's files without being in the message: the runtime's own doing."""
    said = {
        Knob.MEMORY_MAX: sent.memory_limit_in_bytes,
        Knob.MEMORY_SWAP_MAX: sent.memory_swap_limit_in_bytes,
        Knob.CPU_WEIGHT: sent.cpu_shares,
        Knob.CPU_MAX: sent.cpu_quota or sent.cpu_period,
        Knob.CPUSET_CPUS: sent.cpuset_cpus,
        Knob.CPUSET_MEMS: sent.cpuset_mems,
    }
    huge = {f"hugetlb.{size}.max" for size, _ in sent.hugepage_limits}
    return tuple(
        Unsayable(
            knob=knob,
            value=str(expected.written),
            why=_WHY.get(knob, "the message has no word for it: the runtime decides."),
        )
        for knob, expected in planned.items()
        if expected.written is not ABSENT and not said.get(knob) and knob not in sent.unified and knob not in huge
    )
