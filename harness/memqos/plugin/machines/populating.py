"""Populations for the state suites: all pods of the catalogue under one kubelet, with their evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from memqos.catalog.kubelets import KubeletCase
from memqos.clock import SYSTEM_CLOCK
from memqos.laboratory.evidence import Folder, Sink
from memqos.laboratory.station import Station
from memqos.model.pod import Pod
from memqos.node.pods.population import Population
from memqos.plugin.face.telling import Telling
from memqos.plugin.keys import RESULTS
from memqos.report.words import slug

__all__ = ["populated"]


@contextlib.contextmanager
def populated(
    config: pytest.Config, station: Station, pods: Sequence[Pod], kubelet: KubeletCase
) -> Iterator[Population]:
    """The pods on the station's node; plan, reading and requests are in populations/MACHINE-KUBELET."""
    telling = Telling(config)
    folder = Folder(config.stash[RESULTS] / "populations" / slug(f"{station.id}-{kubelet.id}"), shared=True)
    name = f"kubelet {kubelet.id}: {len(pods)} pods"
    telling.start(name)
    began = SYSTEM_CLOCK.now()
    with station.log.to(Sink(folder)), station.node.admitted(pods, kubelet) as population:
        failed = len(population.failures)
        trouble = f", {failed} of them not" if failed else ""
        telling.line(f"{name} admitted{trouble} in {SYSTEM_CLOCK.now() - began:.0f} s")
        yield population
