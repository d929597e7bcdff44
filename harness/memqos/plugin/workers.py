"""How many xdist workers a run of suites gets: those that are fastest, and no more than machines fit on this host."""

from __future__ import annotations

import os

import pytest

from memqos.catalog.topologies import load_topology
from memqos.config.settings import Settings
from memqos.errors import MemqosError
from memqos.plugin.given import settings_given
from memqos.vm.cache.entry import list_images
from memqos.vm.cache.store import Cache, default_cache
from memqos.vm.checkpoint.stored import list_checkpoints
from memqos.vm.host.capacity import capacity, fastest, read_host
from memqos.vm.host.programs import find_qemu
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle
from memqos.vm.qemu.spec import Accelerator

__all__ = ["limit_workers"]


def limit_workers(config: pytest.Config, asked: int | str) -> tuple[int, str]:
    """How many of the workers that were asked for there can be, and one line that says so.

    asked: a number, of which as many are started as fit, or xdist's words "auto" and "logical" for as many as are
    fastest; 0 is this process alone. Settings that cannot be resolved are left for pytest_configure to refuse.
    """
    try:
        settings = settings_given(config)
        topology = load_topology(settings.word("topology"))
        cache, host = default_cache(os.environ), read_host()
        ready = [
            one.used_bytes
            for one in list_checkpoints(cache)
            if (one.profile in settings.profiles and one.topology == topology.name)
        ]
        most = capacity(host, memory_bytes=topology.memory_bytes, checkpoint_bytes=max(ready, default=0))
        best = fastest(host, most, cpus=topology.cpus, emulated=_is_emulated(settings, cache))
    except MemqosError:
        return (asked, "") if isinstance(asked, int) else (0, "")
    if not isinstance(asked, int):
        # One worker would only add a process: this one does its work as well.
        number = best.machines if best.machines > 1 else 0
        return number, f"memqos: {_machines(best.machines)} at a time: {best.reason}"
    if asked > most.machines:
        said = f"memqos: {_machines(most.machines)} at a time instead of {asked}: {most.reason}"
    else:
        said = f"memqos: {_machines(asked)} at a time"
    number = min(asked, most.machines)
    if number > best.machines:
        said += f"; {best.machines} would be faster (-n auto): {best.reason}"
    return number, said


def _is_emulated(settings: Settings, cache: Cache) -> bool:
    """Whether machines run under software emulation; so it is taken to be while there is no image to try KVM with."""
    if kvm_device_obstacle():
        return True
    images = [image for image in list_images(cache) if image.profile in settings.profiles]
    if not images:
        return True
    return choose_accelerator(find_qemu(), images[0].kernel, cache=cache).accelerator is Accelerator.TCG


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
