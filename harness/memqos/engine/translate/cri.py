"""What CRI LinuxContainerResources does not say of a container's plan.

The message is the kubelet's own, so it is no translation; but zero and empty mean "not specified" in it, so some of
what a container's files must hold is left to the runtime, and nothing that was said once can be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping

from memqos.engine.translate.resources import Unsayable
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["unsaid"]

_NO_SWAP_LIMIT = "the message has no swap limit: the runtime takes a memory limit alone as no swap."
_WHY: Mapping[Knob, str] = {
    Knob.MEMORY_SWAP_MAX: _NO_SWAP_LIMIT,
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: _NO_SWAP_LIMIT,
}


def unsaid(sent: ContainerResources, written: Mapping[str, str]) -> tuple[Unsayable, ...]:
    """What is written into the container's files without being in the message: the runtime's own doing.

    written: control file to text. Files that plans are not about are left out.
    """
    said = {
        Knob.MEMORY_MAX: sent.memory_limit_in_bytes,
        Knob.MEMORY_SWAP_MAX: sent.memory_swap_limit_in_bytes,
        Knob.MEMORY_LIMIT_IN_BYTES: sent.memory_limit_in_bytes,
        Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: sent.memory_swap_limit_in_bytes,
        Knob.CPU_WEIGHT: sent.cpu_shares,
        Knob.CPU_SHARES: sent.cpu_shares,
        Knob.CPU_MAX: sent.cpu_quota or sent.cpu_period,
        Knob.CPU_CFS_QUOTA_US: sent.cpu_quota,
        Knob.CPU_CFS_PERIOD_US: sent.cpu_period,
        Knob.CPUSET_CPUS: sent.cpuset_cpus,
        Knob.CPUSET_MEMS: sent.cpuset_mems,
    }
    huge = {f"hugetlb.{size}.{file}" for size, _ in sent.hugepage_limits for file in ("max", "limit_in_bytes")}
    return tuple(
        Unsayable(
            knob=knob,
            value=written[knob],
            why=_WHY.get(knob, "the message has no word for it: the runtime decides."),
        )
        for knob in Knob
        if knob in written and not said.get(knob) and knob not in sent.unified and knob not in huge
    )
