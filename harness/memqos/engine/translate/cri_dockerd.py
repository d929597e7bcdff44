"""cri-dockerd: from CRI LinuxContainerResources to the HostConfig that it asks the Docker Engine for.

It sets memory and swap together to the memory limit, which is no swap, whatever the request says about swap, and has no
place for unified entries or huge pages: memory.min, memory.high, memory.oom.group and LimitedSwap get lost
(kubernetes#124096). Source: Mirantis/cri-dockerd core/helpers_linux.go `updateCreateConfig` and
core/container_update_resources.go, 0.3.0 to 0.4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from memqos.engine.translate.dockerd import docker_created, docker_updated
from memqos.engine.translate.resources import OciTranslation, Unsayable
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["through_cri_dockerd"]

_DEFAULTS = {knob.value: str(knob.kernel_default) for knob in Knob}


def through_cri_dockerd(sent: ContainerResources, *, update: bool, swap_controller: bool = True) -> OciTranslation:
    """What reaches the OCI runtime of a request. update: whether it changes a container that exists.

    swap_controller: whether Docker finds memory.swap.max.
    """
    asked: dict[str, int | str] = {
        "Memory": sent.memory_limit_in_bytes,
        "MemorySwap": sent.memory_limit_in_bytes,
        "CpuShares": sent.cpu_shares,
        "CpuQuota": sent.cpu_quota,
        "CpuPeriod": sent.cpu_period,
        "CpusetCpus": sent.cpuset_cpus,
        "CpusetMems": sent.cpuset_mems,
    }
    if update:
        answer = docker_updated({}, asked, swap_controller=swap_controller)
    else:
        answer = docker_created({**asked, "OomScoreAdj": sent.oom_score_adj}, swap_controller=swap_controller)
    return OciTranslation(
        resources=answer.resources,
        oom_score_adj=None if update or answer.refusal else sent.oom_score_adj,
        unsayable=tuple(_lost(sent)),
        refusal=answer.refusal,
    )


def _lost(sent: ContainerResources) -> Iterator[Unsayable]:
    limit, both = sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes
    if both and both != limit and Knob.MEMORY_SWAP_MAX not in sent.unified:
        value = "max" if both < 0 else str(max(both - limit, 0))
        yield Unsayable(knob=Knob.MEMORY_SWAP_MAX, value=value, why="cri-dockerd leaves a swap limit out.")
    for name, value in sent.unified.items():
        lost_nothing = value == ("0" if name == Knob.MEMORY_SWAP_MAX and limit else _DEFAULTS.get(name))
        if not lost_nothing:
            yield Unsayable(knob=name, value=value, why="cri-dockerd leaves unified entries out.")
    for size, amount in sent.hugepage_limits:
        yield Unsayable(
            knob=f"hugetlb.{size}.max", value=str(amount), why="cri-dockerd leaves limits of huge pages out."
        )
