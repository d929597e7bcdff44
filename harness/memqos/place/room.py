"""How many machines of a run fit on this host at a time.

Also the path of this host's cache.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memqos.catalog.topologies import load_topology
from memqos.config.settings import Settings
from memqos.vm.architecture import ARCHITECTURES
from memqos.vm.cache.entry import Image, list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.checkpoint import list_checkpoints
from memqos.vm.host.capacity import Capacity, capacity, fastest, read_host
from memqos.vm.host.programs import find_qemu
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle
from memqos.vm.qemu.spec import Accelerator

__all__ = ["RunCapacity", "cache_root", "room_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCapacity:
    """most: the number that fits on this host; best: the number that is fastest."""

    most: Capacity
    best: Capacity


def room_for(settings: Settings) -> RunCapacity:
    """The room for this run's machines. Raises MemqosError for settings without a machine."""
    if settings.target:
        one = Capacity(machines=1, reason=f"{settings.origins['target']} names one machine")
        return RunCapacity(most=one, best=one)
    topology = load_topology(settings.topology)
    cache, host = default_cache(os.environ), read_host()
    ready = [
        one.used_bytes
        for one in list_checkpoints(cache)
        if one.profile in settings.profile and one.topology == topology.name
    ]
    most = capacity(host, memory_bytes=topology.memory_bytes, checkpoint_bytes=max(ready, default=0))
    return RunCapacity(most=most, best=fastest(host, most, cpus=topology.cpus, emulated=is_emulated(settings, cache)))


def is_emulated(settings: Settings, cache: Cache) -> bool:
    """Whether machines run under software emulation; True until an image exists to try KVM with."""
    if kvm_device_obstacle():
        return True
    images = [image for image in list_images(cache) if image.profile in settings.profile]
    if not images:
        return True
    return any(_accelerator_of(image, cache) is Accelerator.TCG for image in images)


def _accelerator_of(image: Image, cache: Cache) -> Accelerator:
    architecture = next(one for one in ARCHITECTURES if one.name == image.architecture)
    qemu = find_qemu(architecture)
    return choose_accelerator(qemu, image.kernel, cache=cache, architecture=architecture).accelerator


def cache_root() -> Path:
    """The cache's folder, by environment variables; it may not exist."""
    return default_cache(os.environ).root
