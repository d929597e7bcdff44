"""The commands that install a user's files in a guest, and the errors for unfit files."""

import json
import tomllib
from types import SimpleNamespace

import pytest

from memqos.clock import Deadline
from memqos.errors import UsageError
from memqos.target.base import version_in
from memqos.target.fake import FakeTarget
from memqos.vm.guest.installing import PACKAGES, install, put_in
from memqos.vm.guest.view import kernel_config_of, packages_in, versions_of
from memqos.vm.image.derived import kernel_release
from memqos.vm.options import BootOptions, RuntimeBinary, check_options
from memqos.vm.profile import Contents

VERSIONS = {
    ("uname", "-r"): b"6.12.1\n",
    ("systemctl", "--version"): b"systemd 257 (257.9-1)\n",
    ("containerd", "--version"): b"containerd github.com/containerd/containerd 1.7.24~ds1 1.7\n",
    ("runc", "--version"): b"runc version 1.1.15+ds1\ncommit: 1\n",
    ("crun", "--version"): b"crun version 1.21\n",
}


RUNC = {"status": 0, "out": "runc version 1.3.6\ncommit: 1\n", "err": ""}
NO_ANSWER = {"status": 1, "out": "", "err": "unknown option"}


def soon():
    return Deadline.after(5)


PLUGINS = """\
TYPE                                      ID                       PLATFORMS      STATUS
io.containerd.content.v1                  content                  -              ok
io.containerd.grpc.v1                     containers               -              ok
"""
CRI = "io.containerd.grpc.v1                     cri                      linux/amd64    {}\n"


class Guest:
    """A target that records its commands; each succeeds unless told otherwise."""

    def __init__(self, *, version=RUNC, features=NO_ANSWER, **outcomes):
        self.ran = []
        self.tried = {"--version": version, "features": features}
        self.outcomes = {"ctr": (0, (PLUGINS + CRI.format("ok")).encode(), b""), **outcomes}
        names = ("ctr", "sh", "mkdir", "mv", "rm", "env", "systemctl", "journalctl", "dpkg-query", "dpkg")
        commands = {(name,): self.answer for name in names}
        commands |= dict.fromkeys(VERSIONS, self.version)
        commands[("python3", "-c")] = lambda *_: (0, json.dumps(self.tried).encode(), b"")
        places = ("/usr/bin/containerd", "/usr/sbin/runc", "/etc/containerd/config.toml", f"{PACKAGES}/keep")
        places += ("/usr/lib/memqos/runtimes/keep",)
        self.target = FakeTarget(files=dict.fromkeys(places, b"old"), commands=commands)
        self.noted = {}
        contents = Contents(versions={"runc": "1.1.15+ds1"})
        self.machine = SimpleNamespace(target=self.target, note=self.noted.update, contents=contents)

    def answer(self, argv, *_):
        self.ran.append(" ".join(argv))
        for beginning, outcome in self.outcomes.items():
            if argv[0] == beginning:
                return outcome
        if "command -v" in argv[2 if len(argv) > 2 else 0]:
            return 0, {"runc": b"/usr/sbin/runc\n", "containerd": b"/usr/bin/containerd\n"}.get(argv[-1], b""), b""
        return 0, b"", b""

    def version(self, argv, *_):
        return self.outcomes.get(argv[0], (0, VERSIONS[tuple(argv)], b""))


@pytest.fixture
def bring(tmp_path):
    def bring(option, content, name="file", mode=0o755, runtime="runc", **more):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(mode)
        if option == "runtime_binary":
            return check_options(BootOptions(runtime_files=(RuntimeBinary(name=runtime, path=path),), **more))
        return check_options(BootOptions(**{option: (path,) if option.endswith("debs") else path}))

    return bring


def test_without_options_nothing_is_installed():
    guest = Guest()
    install(guest.machine, check_options(BootOptions()))
    put_in(guest.machine, check_options(BootOptions()))
    assert guest.ran == []
    assert guest.noted == {}


def test_a_runtime_takes_the_place_of_the_images_own_and_containerd_goes_on(bring):
    guest = Guest()
    choices = bring("runtime_binary", b"#!/bin/sh\n")
    install(guest.machine, choices)
    assert guest.ran == []
    put_in(guest.machine, choices)
    # A mount cannot be moved: whatever is mounted over runc goes first.
    unsealed, moved = "systemctl stop memqos-sealed-runc.service", "mv /usr/sbin/runc /usr/sbin/runc.dist"
    assert guest.ran.index(unsealed) < guest.ran.index(moved)
    assert guest.noted["runc"] == "as it is on the disk"
    assert guest.target.read("/usr/sbin/runc", deadline=soon()) == b"#!/bin/sh\n"
    assert not [line for line in guest.ran if "restart" in line]
    assert guest.noted["runtime_binary"]["path"] == "/usr/sbin/runc"
    assert guest.noted["runtime_binary"]["says"] == {"name": "runc", "version": "1.3.6"}
    assert guest.machine.contents.versions == {"runc": "1.3.6"}


def test_a_runtime_that_reports_no_version_has_none(bring):
    """It is not the image's own any more: nothing is known about this one."""
    guest = Guest(version=NO_ANSWER)
    put_in(guest.machine, bring("runtime_binary", b"#!/bin/sh\n"))
    assert guest.machine.contents.versions == {}
    assert guest.noted["runtime_binary"]["says"] == {"name": "", "version": ""}


def test_another_runtime_in_place_of_runc_has_its_own_identity(bring):
    guest = Guest(version={"status": 0, "out": "crun version 1.21\n", "err": ""})
    put_in(guest.machine, bring("runtime_binary", b"#!/bin/sh\n"))
    assert guest.machine.contents.versions == {}
    assert guest.noted["runtime_binary"]["says"] == {"name": "crun", "version": "1.21"}


def test_a_containerd_without_one_to_replace_is_rejected(bring):
    guest = Guest()
    guest.answer = lambda *_: (0, b"", b"")
    guest.target.on(("sh",), guest.answer)
    with pytest.raises(UsageError, match="--containerd-binary: the machine has no program 'containerd'"):
        put_in(guest.machine, bring("containerd_binary", b"#!/bin/sh\n"))


UXC = {"status": 0, "out": "uxc version 0.1\n", "err": ""}


@pytest.mark.parametrize("name", ["uxc", "sh", "systemctl"])
def test_a_runtime_outside_the_image_collides_with_no_program(bring, name):
    guest = Guest(version=UXC)
    put_in(guest.machine, bring("runtime_binary", b"#!/bin/sh\n", runtime=name))
    place = f"/usr/lib/memqos/runtimes/{name}"
    assert guest.target.read(place, deadline=soon()) == b"#!/bin/sh\n"
    assert not [line for line in guest.ran if line.startswith(("mv", "systemctl"))]
    assert guest.machine.contents.places == {name: place}
    assert guest.noted["runtime_binary"]["runtime"] == name
    assert guest.machine.contents.brought[name].name == "uxc"


CONFIGS = {"2": "io.containerd.grpc.v1.cri", "3": "io.containerd.cri.v1.runtime"}


@pytest.mark.parametrize("version", CONFIGS)
def test_containerd_gets_a_handler_under_each_driver_for_a_runtime_that_it_does_not_know(bring, version):
    guest, plugin = Guest(version=UXC), CONFIGS[version]
    own = f'version = {version}\n[plugins."{plugin}".containerd.runtimes.uxc]\nruntime_type = "own"\n'
    guest.target.put("/etc/containerd/config.toml", own.encode())
    put_in(guest.machine, bring("runtime_binary", b"#!/bin/sh\n", runtime="uxc", handlers=("uxc", "missing")))
    config = tomllib.loads(guest.target.read("/etc/containerd/config.toml", deadline=soon()).decode())
    runtimes = config["plugins"][plugin]["containerd"]["runtimes"]
    assert runtimes == {
        "uxc": {"runtime_type": "own"},
        "uxc-cgroupfs": {
            "runtime_type": "io.containerd.runc.v2",
            "options": {"BinaryName": "/usr/lib/memqos/runtimes/uxc", "SystemdCgroup": False},
        },
    }
    assert "systemctl restart containerd" in guest.ran


def test_docker_is_configured_with_a_new_runtime(bring):
    guest, unit = Guest(version=UXC), "/etc/systemd/system/memqos-docker@.service"
    guest.target.put(unit, b"ExecStart=dockerd --add-runtime=crun=/usr/bin/crun\n")
    put_in(guest.machine, bring("runtime_binary", b"#!/bin/sh\n", runtime="uxc", docker_runtimes=("uxc",)))
    told = guest.target.read(unit, deadline=soon()).decode()
    assert told == (
        "ExecStart=dockerd --add-runtime=uxc=/usr/lib/memqos/runtimes/uxc --add-runtime=crun=/usr/bin/crun\n"
    )
    assert "systemctl daemon-reload" in guest.ran


def test_podman_is_configured_with_new_runtimes(bring):
    guest = Guest(version=UXC)
    guest.target.put("/etc/containers/policy.json", b"{}")
    brought = bring("runtime_binary", b"#!/bin/sh\n", runtime="uxc.dist", podman_runtimes=("uxc.dist", "missing"))
    put_in(guest.machine, brought)
    config = tomllib.loads(guest.target.read("/etc/containers/containers.conf", deadline=soon()).decode())
    assert config == {"engine": {"runtimes": {"uxc.dist": ["/usr/lib/memqos/runtimes/uxc.dist"]}}}


def test_containerd_starts_again_with_its_configuration(bring):
    guest = Guest()
    put_in(guest.machine, bring("containerd_config", b"version = 2\n"))
    assert guest.target.read("/etc/containerd/config.toml", deadline=soon()) == b"version = 2\n"
    assert "systemctl restart containerd" in guest.ran
    assert guest.noted["containerd_config"]["hugetlb"] is False


def test_a_containerd_that_does_not_come_up_shows_its_journal(bring):
    guest = Guest(systemctl=(1, b"", b"failed"), journalctl=(0, b"invalid plugin config\n", b""))
    with pytest.raises(UsageError, match=r"--containerd-binary: containerd does not start .*\n.*invalid plugin config"):
        put_in(guest.machine, bring("containerd_binary", b"#!/bin/sh\n"))


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (PLUGINS, "its plugin 'cri' is missing"),
        (PLUGINS + CRI.format("error"), "its plugin 'cri' is in the state 'error'"),
    ],
)
def test_a_containerd_without_cri_is_the_persons_to_mend(bring, listed, words):
    guest = Guest(ctr=(0, listed.encode(), b""))
    with pytest.raises(UsageError, match=f"--containerd-config: containerd starts .* does not serve CRI: {words}"):
        put_in(guest.machine, bring("containerd_config", b'disabled_plugins = ["cri"]\n'))


@pytest.mark.parametrize("answer", [(0, (PLUGINS + CRI.format("ok")).encode(), b""), (127, b"", b"not found")])
def test_a_containerd_with_cri_or_without_an_answer_is_accepted(bring, answer):
    put_in(Guest(ctr=answer).machine, bring("containerd_config", b"version = 2\n"))


def test_a_package_is_installed_and_the_list_of_packages_renewed(bring):
    guest = Guest(**{"dpkg-query": (0, b"runc\t9\n", b"")})
    install(guest.machine, bring("runtime_debs", b"!<arch>\ndebian-binary", "my.deb"))
    [command] = [line for line in guest.ran if line.startswith("env ")]
    assert command.endswith("dpkg --install --force-depends --force-confold /var/tmp/memqos-packages/0-my.deb")
    assert guest.noted["packages"] == {"runc": "9"}
    assert guest.machine.contents.versions == {"runc": "1.3.6"}
    assert "systemctl restart containerd" in guest.ran


def test_a_package_with_a_broken_runtime_is_rejected_before_the_machine_is_saved(bring):
    guest = Guest(version={"error": "Exec format error"}, features={"error": "Exec format error"})
    with pytest.raises(UsageError, match=r"--runtime-deb: '/usr/bin/containerd of .*my\.deb' does not run in the mach"):
        install(guest.machine, bring("runtime_debs", b"!<arch>\ndebian-binary", "my.deb"))


def test_a_package_that_does_not_install_is_reported_with_dpkgs_output(bring):
    guest = Guest(env=(1, b"", b"dpkg-deb: error: not a Debian format archive\n"))
    with pytest.raises(UsageError, match=r"--runtime-deb: '.*my\.deb' cannot be installed(.|\n)*not a Debian format"):
        install(guest.machine, bring("runtime_debs", b"!<arch>\ndebian-binary", "my.deb"))


@pytest.mark.parametrize(
    ("listed", "words"),
    [(b"/boot/config-1\n", "contain no kernels"), (b"/boot/vmlinuz-1\n/boot/vmlinuz-2\n", "contain 2 kernels")],
)
def test_packages_hold_one_kernel(listed, words):
    with pytest.raises(UsageError, match=words):
        kernel_release(Guest(dpkg=(0, listed, b"")).target, ["a", "b"], deadline=soon())


def test_a_kernels_release_is_in_its_files_name():
    guest = Guest(dpkg=(0, b"/.\n/boot/vmlinuz-6.1.0-56-cloud-amd64\n/boot/config-6.1\n", b""))
    assert kernel_release(guest.target, ["linux-image"], deadline=soon()) == "6.1.0-56-cloud-amd64"


def test_versions_are_those_that_programs_report():
    assert versions_of(Guest().target, deadline=soon()) == {
        "kernel": "6.12.1",
        "systemd": "257",
        "containerd": "1.7.24~ds1",
        "runc": "1.1.15+ds1",
        "crun": "1.21",
    }
    assert version_in("nothing here") is None
    assert (
        version_in("containerd github.com/containerd/containerd/v2 v2.1.9 1c4457e00facac03ce1d75f7b6777a7a85")
        == "v2.1.9"
    )
    assert version_in("runc version unknown 1c4457e") is None
    assert packages_in("a\t1\nb\t2\nnoise\n") == {"a": "1", "b": "2"}


def test_runsc_has_a_version_where_it_is_installed():
    guest = Guest()
    guest.target.on(("runsc",), lambda *_: (0, b"runsc version release-20260413.0\nspec: 1.2.0\n", b""))
    assert versions_of(guest.target, deadline=soon())["runsc"] == "release-20260413.0"
    assert version_in("runsc version 0.0~20240729.0\nspec: 1.2.0\n") == "0.0~20240729.0"


@pytest.mark.parametrize("path", ["/boot/config-6.12", "/usr/lib/modules/6.12/config"])
def test_a_kernels_configuration_is_that_of_its_own_file(path):
    text = b"CONFIG_PSI=y\n# CONFIG_ZSWAP is not set\nCONFIG_LRU_GEN_ENABLED=y\nCONFIG_HZ=250\n"
    target = FakeTarget(files={path: text})
    assert kernel_config_of(target, "6.12", deadline=soon()) == {
        "CONFIG_CPUSETS_V1": "n",
        "CONFIG_LRU_GEN_ENABLED": "y",
        "CONFIG_MEMCG_V1": "n",
        "CONFIG_PSI": "y",
        "CONFIG_ZSWAP": "n",
    }
