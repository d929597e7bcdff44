"""A node's enactor, chosen by its name."""

import pytest

from memqos.enactor.fake import FakeKubelet
from memqos.enactor.registry import ENACTORS, Site
from memqos.engine.answer.finding import Setter
from memqos.engine.translate.versions import TRIXIE
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace
from tests.unit.node.fakes import Log, kubelet, pod


def node_of(place, **given):
    driver = CgroupDriver.SYSTEMD
    return node_on(place, place.runtime(driver), recorder=Log(), driver=driver, runtimes=TRIXIE, **given)


def setter_of_the_pod(node):
    web = pod("web")
    with node.admitted([web], kubelet()) as population:
        [found] = [
            one for one in population.judge_pod(web) if one.knob == "memory.max" and str(one.subject).startswith("pod ")
        ]
        return found.set_by


@pytest.mark.parametrize("given", [{}, {"enactor": "memqos"}], ids=["default", "by name"])
def test_memqos_is_in_the_kubelets_place(given):
    assert setter_of_the_pod(node_of(FakePlace(), **given)) is Setter.MEMQOS


def test_a_registered_enactor_carries_out_the_plan(monkeypatch):
    place, sites = FakePlace(), []

    def make(site: Site):
        sites.append(site)
        return FakeKubelet(place.cgroups)

    monkeypatch.setitem(ENACTORS, "kubelet", make)
    assert setter_of_the_pod(node_of(place, enactor="kubelet", parallel=3)) is Setter.KUBELET
    assert [(site.parallel, site.tree.hierarchy) for site in sites] == [(3, place.facts.hierarchy)]


def test_an_unknown_name_is_a_usage_error_that_lists_the_names(monkeypatch):
    monkeypatch.setitem(ENACTORS, "kubelet", lambda _: None)
    with pytest.raises(UsageError) as raised:
        node_of(FakePlace(), enactor="kublet")
    assert str(raised.value) == (
        "enactor: there is no enactor 'kublet'. Did you mean 'kubelet'? Known: kubelet, memqos."
    )
