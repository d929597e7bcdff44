"""The place that settings mean, and settings that conflict."""

import contextlib
import struct

import pytest

from memqos.config.settings import resolve
from memqos.errors import UsageError
from memqos.place import opening
from memqos.place.opening import additions_for, check_host, check_places, prepare_places, room_for

NODE = "ssh://root@node7:22"


def settings(environment=None, **given):
    return resolve(given, environment or {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"target": "node7"}, "--target: there is no connection 'node7'"),
        (
            {"target": NODE, "profile": "forky"},
            "--profile applies to machines that memqos boots, but --target names an",
        ),
        ({"target": NODE, "keep_vm": True}, "--keep-vm applies to machines that memqos boots"),
        ({"target": NODE, "kernel_deb": ["a.deb"]}, "--kernel-deb applies to machines that memqos boots"),
        ({"topology": "no-such"}, "there is no topology 'no-such'"),
        (
            {"target": NODE, "runtime": "rootless:crun"},
            "--runtime: rootless:crun needs a machine of a profile, in which memqos makes the user: --target names",
        ),
        (
            {"target": NODE, "runtime": "podman+crun"},
            "--runtime: podman.crun needs a machine of a profile, in which memqos starts Podman's service: --target",
        ),
        (
            {"image": "fedora.qcow2", "runtime": "runc,podman+runc"},
            "--runtime: podman.runc needs a machine of a profile, in which memqos starts Podman's service: --image",
        ),
        (
            {"target": NODE, "runtime": "oci:./uxc"},
            "--runtime: '.*uxc' is a file of this host, and --target names a machine to which no runtime is copied",
        ),
        ({"runtime": "rootless:runc", "cgroup": "v1"}, "--cgroup: rootless:runc needs cgroup v2"),
        ({"no_userns": True}, "--no-userns is about rootless: runtimes, and none is chosen"),
        ({"runtime": "rootless:uxc"}, "--runtime: there is no runtime 'rootless:uxc'"),
    ],
)
def test_what_no_place_can_be_is_refused_before_one_is_opened(given, told):
    with pytest.raises(UsageError, match=told):
        check_places(settings(**given))


@pytest.mark.parametrize(("profile", "told"), [("trixie-arm64", ""), ("trixie", "is built for arm64, .* are amd64")])
def test_a_program_is_for_the_cpu_of_its_profile(tmp_path, profile, told):
    """183 is EM_AARCH64 (elf(5))."""
    program = tmp_path / "uxc"
    program.write_bytes(struct.pack("<4s12xHHIQQQIHHH6x", b"\x7fELF", 2, 183, 1, 0, 64, 0, 0, 64, 56, 0))
    program.chmod(0o755)
    with pytest.raises(UsageError, match=told) if told else contextlib.nullcontext():
        check_places(settings(profile=profile, runtime=f"podman+{program}"))


def test_environment_settings_of_booted_machines_do_not_conflict():
    """It may be set for other runs; the header shows that it was given."""
    check_places(settings({"MEMQOS_PROFILE": "forky"}, target=NODE))


@pytest.mark.parametrize(
    ("runtime", "added"),
    [
        ("runc,oci:crun", ()),
        ("oci:runsc", ("runsc",)),
        ("oci:runsc,docker+runc", ("docker", "runsc")),
        ("podman+crun", ("podman",)),
        ("rootless:crun", ()),
    ],
)
def test_an_image_has_docker_and_gvisor_on_request(runtime, added):
    assert additions_for(settings(runtime=runtime)) == added


def test_nothing_is_built_for_an_existing_machine(monkeypatch):
    for name in ("find_qemu", "ensure_image", "check_room"):
        monkeypatch.setattr(opening, name, lambda *_, **__: pytest.fail("something was looked for"))
    check_host(settings(target=NODE))
    prepare_places(settings(target=NODE), progress=None)


def test_there_is_only_one_existing_machine():
    room = room_for(settings(target=NODE))
    assert (room.most.machines, room.best.machines) == (1, 1)
    assert room.best.reason == "--target names one machine"
