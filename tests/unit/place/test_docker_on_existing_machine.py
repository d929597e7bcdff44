"""The Docker Engine of an existing machine: found, queried, and cleaned of memqos's objects."""

import pytest

from memqos.clock import Deadline
from memqos.errors import EnvironmentNotAbleError, TargetError
from memqos.model.node import CgroupDriver
from memqos.place import discovery
from memqos.place.discovery import discovered
from memqos.place.guard import guarded
from memqos.place.provisioning import bring_images_to_docker
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY
from memqos.target.local import LocalTarget
from memqos.vm.architecture import AMD64
from tests.unit.place.test_guard import World, world  # noqa: F401 - the fixture
from tests.unit.runtime.test_docker import Engine, engine  # noqa: F401 - the fixture

INFO = {
    "CgroupDriver": "systemd",
    "DockerRootDir": "/var/lib/docker",
    "Runtimes": {
        "crun": {"path": "/no/such/crun"},
        "io.containerd.runc.v2": {"path": "runc-that-is-not-there"},
        "runc": {"path": "runc-that-is-not-there"},
        "wasm": {"runtimeType": "io.containerd.wasm.v1"},
    },
}


@pytest.fixture
def found(engine, monkeypatch):  # noqa: F811
    """The runtimes found on this host, whose only socket is the engine's."""

    def found(**info):
        engine.answers["GET /info"] = (200, {**INFO, **info})
        monkeypatch.setattr(discovery, "SOCKETS", ())
        monkeypatch.setattr(discovery, "DOCKER_SOCKET", str(engine.path))
        return discovered(LocalTarget(), engine=True, deadline=Deadline.after(10))

    return found


def test_each_program_below_docker_is_offered_once_under_the_engines_driver(found, engine):  # noqa: F811
    offers = found()
    assert list(offers) == ["docker+crun", "docker+runc-that-is-not-there"]
    crun = offers["docker+crun"]
    assert (crun.docker_sockets, crun.handlers) == (
        {CgroupDriver.SYSTEMD: str(engine.path)},
        {CgroupDriver.SYSTEMD: "crun"},
    )
    assert (crun.socket, crun.is_direct, crun.oci.name) == ("", False, "crun")


@pytest.mark.parametrize("driver", ["none", ""])
def test_an_engine_without_cgroups_offers_nothing(found, driver):
    with pytest.raises(EnvironmentNotAbleError, match=r"no container runtime listens on .*docker\.sock"):
        found(CgroupDriver=driver)


def test_docker_is_not_queried_without_need(engine, monkeypatch):  # noqa: F811
    monkeypatch.setattr(discovery, "SOCKETS", ())
    monkeypatch.setattr(discovery, "DOCKER_SOCKET", str(engine.path))
    with pytest.raises(EnvironmentNotAbleError, match="no container runtime listens"):
        discovered(LocalTarget(), deadline=Deadline.after(10))
    assert engine.asked == []


def test_a_missing_image_is_created_with_memqos_label(found, engine):  # noqa: F811
    engine.answers["GET /images/json"] = (200, [])
    engine.answers["POST /images/create"] = (200, {"status": "sha256:1"})
    offer = found(Runtimes={"runc": {"path": "runc"}})["docker+runc"]
    bring_images_to_docker(LocalTarget(), offer, CgroupDriver.SYSTEMD, AMD64, deadline=Deadline.after(60))
    [root] = engine.asked_of("POST /images/create")
    assert root[:7] == b"tmp/\0\0\0"
    assert any("LABEL" in one and "memqos.local" in one for one in engine.urls)


def take_back(engine):  # noqa: F811
    with guarded(LocalTarget(), socket="", engine=str(engine.path), hierarchy=FAKE_HIERARCHY):
        pass


def test_the_guard_removes_our_containers_and_images(world, engine):  # noqa: F811
    listings = iter([[{"Id": "c1"}, {"Id": "gone"}]])
    engine.answers["GET /containers/json"] = (200, lambda: next(listings, []))
    engine.answers["GET /images/json"] = (200, [{"Id": "sha256:i1"}])
    engine.answers["DELETE /containers/c1"] = (204, None)
    engine.answers["DELETE /images/sha256:i1"] = (200, [])
    take_back(engine)
    asked = [what for what, _ in engine.asked]
    assert asked[:6] == [
        "GET /containers/json",
        "DELETE /containers/c1",
        "DELETE /containers/gone",
        "GET /containers/json",
        "GET /images/json",
        "DELETE /images/sha256:i1",
    ]
    assert any("memqos.sandbox" in url for url in engine.urls)
    assert any("memqos.local%2Fmade-by" in url for url in engine.urls)


def test_what_the_engine_does_not_remove_is_reported(world, engine):  # noqa: F811
    engine.answers["GET /containers/json"] = engine.answers["GET /images/json"] = (200, [])

    def keeping_one():
        with guarded(LocalTarget(), socket="", engine=str(engine.path), hierarchy=FAKE_HIERARCHY):
            engine.answers["GET /containers/json"] = (200, [{"Id": "c1"}])
            engine.answers["DELETE /containers/c1"] = (409, {"message": "it is busy"})

    with pytest.raises(TargetError, match=r"Docker answered DELETE /containers/c1.* with 409.*it is busy"):
        keeping_one()
