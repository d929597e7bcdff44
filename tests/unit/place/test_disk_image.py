"""--image with other settings: which are allowed, and the name of its run."""

import struct
from pathlib import Path

import pytest

from memqos.config.settings import resolve
from memqos.config.systems import systems_of
from memqos.errors import UnfitFileError, UsageError
from memqos.model.topology import HugePages, SwapDevice, Topology, TopologyNode
from memqos.place.disk_image import require_python
from memqos.place.opening import check_places
from memqos.target.base import CommandResult
from memqos.vm.cloud.booting import Login, check_login, set_up

IMAGE = Path("/images/debian-13.qcow2")


def refused(**given):
    with pytest.raises(UsageError) as error:
        check_places(resolve({"image": str(IMAGE), **given}, {}))
    return error.value


@pytest.mark.parametrize(
    "given",
    [
        {"profile": "forky"}, {"runtime_binary": "runc"}, {"guest_file": ["a:/b"]}, {"kernel_deb": ["a.deb"]},
        {"kernel_tree": "linux"}, {"containerd_config": "a.toml"}, {"no_recursiveprot": True},
    ],
)  # fmt: skip
def test_what_goes_into_a_profile_does_not_go_with_an_image(given):
    [name] = given
    error = refused(**given)
    assert error.what == (
        f"--{name.replace('_', '-')} applies to machines of a profile, but --image names a disk image."
    )


def test_a_target_and_an_image_exclude_each_other():
    assert "--image applies to machines that memqos boots" in refused(target="ssh://root@node7").what


@pytest.mark.parametrize("given", [{"ssh_user": "fedora"}, {"ssh_key": "id"}])
def test_a_login_needs_an_image(given):
    with pytest.raises(UsageError, match="needs --image"):
        check_places(resolve(given, {}))


def test_a_missing_file_is_named():
    assert refused().what == f"'{IMAGE}' cannot be read: No such file or directory."
    assert refused().where == "--image"


def test_its_systems_are_called_after_the_file():
    systems = systems_of(resolve({"image": str(IMAGE), "topology": "one-numa-node", "runtime": "runc,crun"}, {}))
    assert [str(system) for system in systems] == [
        "debian-13.qcow2/one-numa-node, containerd+runc, systemd driver",
        "debian-13.qcow2/one-numa-node, containerd+crun, systemd driver",
    ]


@pytest.mark.parametrize("user", ["", "a b", "-oProxyCommand=x", "root;id", "a" * 40, "ä"])
def test_a_users_name_is_checked(user):
    with pytest.raises(UsageError, match="is not a valid user name"):
        check_login(Login(user=user))


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"ssh-ed25519 AAAA me", "is a public key"), (b"hello", "is not a private key"), (None, "cannot be read")],
)
def test_a_key_is_checked(tmp_path, content, what):
    key = tmp_path / "id"
    if content is not None:
        key.write_bytes(content)
    with pytest.raises(UsageError, match=what) as error:
        check_login(Login(key=key))
    assert error.value.where == "--ssh-key"
    key.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    check_login(Login(key=key))


class Guest:
    """A target that records its commands, and reports this view."""

    address = "vm://guest"

    def __init__(self, view):
        self.view, self.ran = view, []

    def run(self, argv, **_):
        self.ran.append(argv)
        text = self.view if "node*" in argv[2] else ""
        return CommandResult(argv=tuple(argv), status=0, stdout=text.encode(), stderr=b"")


TOPOLOGY = Topology(
    name="wanted",
    cpus=1,
    numa_nodes=(
        TopologyNode(id=0, memory_bytes=1 << 30, cpus=(0,), hugepages=(HugePages(size_bytes=2 << 20, count=8),)),
    ),
    swap=(SwapDevice(size_bytes=64 << 20, priority=5),),
)
NODE = "/sys/devices/system/node/node0"
VIEW = f"""\
{NODE}/cpulist:0
{NODE}/distance:10
{NODE}/meminfo:Node 0 MemTotal:      1000000 kB
/proc/mounts:cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0
/proc/swaps:Filename Type Size Used Priority
pagesize:4096
"""


def test_what_a_system_cannot_have_is_listed_and_no_error():
    guest = Guest(VIEW)
    lacking = set_up(guest, TOPOLOGY)
    assert guest.ran[0][4:] == ["swap0=5", f"{NODE}/hugepages/hugepages-2048kB/nr_hugepages=8"]
    assert lacking == [
        "NUMA node 0 has huge pages none, declared are 8 of 2 MiB",
        "it has 0 swap devices, declared are 1",
    ]


def test_what_it_has_is_not_listed():
    whole = VIEW + f"/dev/vdb partition {(64 << 10) - 4} 0 5\n".replace("/dev", "/proc/swaps:/dev")
    whole += f"{NODE}/hugepages/hugepages-2048kB/nr_hugepages:8\n"
    assert set_up(Guest(whole), TOPOLOGY) == []


def test_the_header_of_a_real_image_reaches_the_check(tmp_path):
    image = tmp_path / "a.qcow2"
    image.write_bytes(struct.pack(">4sIQI", b"QFI\xfb", 3, 0, 0))
    with pytest.raises(UsageError, match="less than a qcow2 header"):
        check_places(resolve({"image": str(image)}, {}))


@pytest.mark.parametrize(("status", "said"), [(127, "sh: python3: not found"), (1, "No module named 'zlib'")])
def test_a_system_without_python_is_refused_before_it_is_saved(status, said):
    class Bare:
        def run(self, argv, **_):
            return CommandResult(argv=tuple(argv), status=status, stdout=b"", stderr=said.encode())

    with pytest.raises(UnfitFileError, match="the image's python3 does not run") as refused:
        require_python(Bare(), deadline=None)
    assert (refused.value.where, refused.value.next_step) == ("--image", "Install python3 in the image.")
