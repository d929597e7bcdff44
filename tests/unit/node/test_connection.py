"""A node's enactor, chosen by its name."""

import pytest

from memqos.enactor.fake import FakeKubelet
from memqos.enactor.registry import ENACTORS, Site
from memqos.engine.answer.finding import Setter
from memqos.engine.translate.runtimes import TRIXIE
from memqos.errors import UsageError
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath
from memqos.node.connection import node_on
from memqos.place.fake import FakePlace
from memqos.place.rootless import UserTarget
from memqos.probe.sampler import GuestSampler
from memqos.runtime.delegation import Delegation, UserFolders
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


def test_a_node_of_an_ordinary_user_is_the_part_that_is_delegated():
    place = FakePlace()
    place.sampler = GuestSampler(place.target, place.facts.hierarchy, program="/memwatch")
    part = place.facts.hierarchy.within(CgroupPath.parse("/user.slice/user@1000.service"))
    user = UserTarget(place.target, ("env",))
    runtime = place.runtime(CgroupDriver.CGROUPFS)
    runtime.delegation = Delegation(
        target=user,
        hierarchy=part,
        controllers=frozenset({"memory"}),
        uid=1000,
        gid=1000,
        folders=UserFolders(home="/home/memqos", run="/run/user/1000"),
        score=100,
    )
    sites = []

    def make(site: Site):
        sites.append(site)
        return FakeKubelet(place.cgroups)

    node = node_on(place, runtime, recorder=Log(), driver=CgroupDriver.CGROUPFS, runtimes=TRIXIE, enactor=make)

    assert [(site.tree.hierarchy, site.tree.target) for site in sites] == [(part, user)]
    assert node.tree.hierarchy == part
    assert node.tree.target is place.target
    assert node.facts.user_namespace
    assert node.why_not("own machine").startswith(
        "the pods are an ordinary user's, below /user.slice/user@1000.service:"
    )


def test_root_has_the_whole_machine():
    node = node_of(FakePlace())
    assert not node.facts.user_namespace
    assert "ordinary user" not in node.why_not("own machine")
