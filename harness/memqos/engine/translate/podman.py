"""Podman: from a HostConfig, as its Docker-compatible API takes it, to what reaches the OCI runtime.

What it does otherwise than the Docker Engine:

- A MemorySwap of -1 is dropped when a container is created: with Memory there is as much swap again as memory.
- It checks no amounts: there is no least limit, and what does not fit together is the OCI runtime's to refuse.
- An update passes on all that is kept for the container, with what it names.
- `Runtime` is ignored: the service's own OCI runtime makes every container.
- A container without PidsLimit gets that of containers.conf, 2048.

Source: containers/podman 5.4.2 pkg/api/handlers/compat/containers_create.go (cliOpts), containers.go
(UpdateContainer), pkg/specgenutil/specgen.go (getMemoryLimits, LimitToSwap, getCPULimits),
pkg/specgen/generate/validate_linux.go (verifyContainerResourcesCgroupV2).
"""

from __future__ import annotations

from dataclasses import replace

from memqos.engine.translate.docker import HostConfig, docker_request
from memqos.engine.translate.resources import DockerTranslation, OciResources, OciTranslation, Unsayable
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob

__all__ = ["podman_created", "podman_request", "podman_updated", "through_podman"]

_NOTHING_STORED = OciResources()
_UNLIMITED = -1
_PROCESSES = 2048
"""The limit of processes that containers.conf sets unless it is changed."""
_DROPPED_SWAP = "Podman's API drops a MemorySwap of -1 when it creates a container: it may use as much swap as memory."


def podman_created(asked: HostConfig, *, swap_controller: bool = True) -> OciResources:
    """linux.resources of a container that is created with this; amounts of 0 and below are not passed on.

    swap_controller: whether Podman finds memory.swap.max; it limits no swap without.
    """
    memory, both = (_number(asked, name) for name in ("Memory", "MemorySwap"))
    swap = both if both > 0 else 2 * memory if memory > 0 else None
    return OciResources(
        memory_limit=_above_zero(memory),
        memory_swap=swap if swap_controller else None,
        memory_reservation=_above_zero(_number(asked, "MemoryReservation")),
        cpu_shares=_above_zero(_number(asked, "CpuShares")),
        cpu_quota=_above_zero(_number(asked, "CpuQuota")),
        cpu_period=_above_zero(_number(asked, "CpuPeriod")),
        cpus=_text(asked, "CpusetCpus"),
        mems=_text(asked, "CpusetMems"),
        unified=_processes(asked) or {Knob.PIDS_MAX.value: str(_PROCESSES)},
    )


def podman_updated(stored: OciResources, asked: HostConfig) -> OciResources:
    """linux.resources of an update: what the container has, with each amount that is named and not 0."""
    named = {
        "memory_limit": _number(asked, "Memory"),
        "memory_swap": _number(asked, "MemorySwap"),
        "memory_reservation": _number(asked, "MemoryReservation"),
        "cpu_shares": _number(asked, "CpuShares"),
        "cpu_quota": _number(asked, "CpuQuota"),
        "cpu_period": _number(asked, "CpuPeriod"),
        "cpus": _text(asked, "CpusetCpus"),
        "mems": _text(asked, "CpusetMems"),
    }
    changed = {name: value for name, value in named.items() if value}
    return replace(stored, **changed, unified={**stored.unified, **_processes(asked)})  # type: ignore[arg-type]


def podman_request(sent: ContainerResources, *, stored: OciResources | None = None) -> DockerTranslation:
    """What memqos asks of Podman for a CRI request. stored: what reached the OCI runtime until now; None: a creation.

    ValueError as `host_config`.
    """
    asked = docker_request(sent, stored=stored or _NOTHING_STORED, least=0)
    if stored is not None:
        # Unlike the Docker Engine, Podman passes a -1 of an update on.
        left = [one for one in asked.unsayable if one.knob not in {Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX}]
        return replace(asked, unsayable=tuple(left))
    if asked.host_config.get("MemorySwap") != _UNLIMITED:
        return asked
    dropped = Unsayable(knob=Knob.MEMORY_SWAP_MAX, value="max", why=_DROPPED_SWAP, wordless=True)
    return replace(asked, unsayable=(*asked.unsayable, dropped))


def through_podman(
    sent: ContainerResources, *, stored: OciResources | None = None, swap_controller: bool = True
) -> OciTranslation:
    """What reaches the OCI runtime of a CRI request, by way of Podman. stored: as above.

    Of a text that is no amount nothing is asked: that is the refusal.
    """
    try:
        asked = podman_request(sent, stored=stored)
    except ValueError as error:
        return OciTranslation(resources=_NOTHING_STORED, refusal=str(error))
    if stored is None:
        resources = podman_created(asked.host_config, swap_controller=swap_controller)
    else:
        resources = podman_updated(stored, asked.host_config)
    return OciTranslation(
        resources=resources,
        oom_score_adj=sent.oom_score_adj if stored is None else None,
        unsayable=asked.unsayable,
    )


def _number(asked: HostConfig, name: str) -> int:
    return int(asked.get(name, 0))


def _text(asked: HostConfig, name: str) -> str | None:
    return str(asked.get(name, "")) or None


def _above_zero(amount: int) -> int | None:
    return amount if amount > 0 else None


def _processes(asked: HostConfig) -> dict[str, str]:
    """The limit of processes ends in pids.max, as an entry of unified would."""
    limit = _number(asked, "PidsLimit")
    return {Knob.PIDS_MAX.value: str(limit) if limit > 0 else "max"} if limit else {}
