"""A user's files for a machine: rejected ones, those that change the fingerprint, and kernel words."""

import struct
from pathlib import Path

import pytest

from memqos.errors import UsageError
from memqos.model.node import CgroupVersion
from memqos.vm.architecture import AMD64, ARM64, PPC64LE
from memqos.vm.options import BootOptions, RuntimeBinary, check_options, kernel_words, passes_hugetlb
from memqos.vm.profile import LegacyBoot
from tests.unit.vm.samples import PROFILE


def elf(*, kind=2, machine=62, ends=120):
    """A program of one segment, which fills the file up to `ends`."""
    header = struct.pack("<4s12xHHIQQQIHHH6x", b"\x7fELF", kind, machine, 1, 0, 64, 0, 0, 64, 56, 1)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, ends, ends, 0x1000)


ELF = elf()
DEB = b"!<arch>\ndebian-binary   "
KERNEL = bytes(0x202) + b"HdrS"
V3 = """
version = 3
[plugins."io.containerd.cri.v1.runtime"]
disable_hugetlb_controller = false
"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="file", *, mode=0o755):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(mode)
        return path

    return write


def test_nothing_brought_is_no_fingerprint():
    choices = check_options(BootOptions())
    assert (choices.fingerprint, choices.provenance) == ("", {})


def test_the_content_and_use_of_every_saved_file_is_in_the_fingerprint(write):
    given = [
        BootOptions(runtime_debs=(write(DEB, "a"),)),
        BootOptions(kernel_debs=(write(DEB, "a"),)),
        BootOptions(runtime_debs=(write(DEB, "a"), write(DEB + b"b", "b"))),
        BootOptions(runtime_debs=(write(DEB + b"b", "b"), write(DEB, "a"))),
        BootOptions(kernel_image=write(KERNEL, "k")),
        BootOptions(kernel_image=write(KERNEL, "k"), initrd=write(b"070701", "i")),
    ]
    fingerprints = [check_options(options).fingerprint for options in given]
    assert len(set(fingerprints)) == len(given)
    assert all(len(fingerprint) == 12 for fingerprint in fingerprints)
    assert check_options(BootOptions(runtime_debs=(write(DEB, "copy"),))).fingerprint == fingerprints[0]


def options_with(option, path):
    """The boot options with this file in one of them."""
    if option == "runtime_binary":
        return BootOptions(runtime_files=(RuntimeBinary(name="runc", path=path),))
    return BootOptions(**{option: path})


def test_what_is_put_into_each_machine_needs_no_checkpoint_of_its_own(write):
    """Otherwise a vendor's every build would cost a boot, and the disk space of a machine's memory."""
    program, config = write(ELF), write(b"version = 2", "c")
    given = [
        BootOptions(runtime_files=(RuntimeBinary(name="runc", path=program),)),
        BootOptions(runtime_files=(RuntimeBinary(name="crun", path=program),)),
        BootOptions(containerd_binary=program, containerd_config=config),
    ]
    chosen = [check_options(options) for options in given]
    assert {choices.fingerprint for choices in chosen} == {""}
    assert [len(choices.late) for choices in chosen] == [1, 1, 2]
    assert [choices.saved for choices in chosen] == [(), (), ()]


def test_each_file_is_recorded_with_its_hash(write):
    choices = check_options(BootOptions(runtime_debs=(write(DEB, "a"), write(DEB + b"b", "b"))))
    first, second = choices.provenance["runtime_deb"]
    assert Path(first["path"]).name == "a"
    assert (second["bytes"], len(second["sha256"])) == (len(DEB) + 1, 64)


def test_a_file_that_changes_while_it_is_used_is_refused(write):
    path = write(ELF)
    [brought] = check_options(BootOptions(runtime_files=(RuntimeBinary(name="runc", path=path),))).brought
    assert brought.content() == ELF
    path.write_bytes(ELF + b"1")
    with pytest.raises(UsageError, match="was changed while it was in use"):
        brought.content()


@pytest.mark.parametrize(
    ("option", "content", "mode", "words"),
    [
        ("runtime_binary", ELF, 0o644, "--runtime-binary: '.*' is not executable"),
        ("runtime_binary", elf(machine=183), 0o755, "--runtime-binary: '.*' is built for arm64, and .* are amd64"),
        ("runtime_binary", elf(machine=3), 0o755, "--runtime-binary: '.*' is built for another CPU, .* are amd64"),
        ("runtime_binary", ELF[:40], 0o755, "--runtime-binary: '.*' is truncated: it has 40 bytes, less than an ELF"),
        ("runtime_binary", ELF[:100], 0o755, "--runtime-binary: '.*' is truncated: it has 100 bytes, .* end at 120"),
        (
            "runtime_binary",
            elf(ends=4096),
            0o755,
            "--runtime-binary: '.*' is truncated: it has 120 bytes, .* end at 4096",
        ),
        ("containerd_binary", elf(kind=1), 0o755, "--containerd-binary: '.*' is an ELF file, but not a program"),
        ("runtime_binary", b"text", 0o755, "--runtime-binary: '.*' is neither a program"),
        ("containerd_binary", b"", 0o755, "--containerd-binary: '.*' is neither a program"),
        ("containerd_config", b"version =", 0o644, "--containerd-config: '.*' is not TOML"),
        ("containerd_config", b"\xff", 0o644, "--containerd-config: '.*' is not TOML"),
        ("kernel_image", ELF, 0o644, "--kernel-image: '.*' is not a kernel that QEMU can start"),
    ],
)
def test_a_file_unfit_for_its_option_is_rejected(write, option, content, mode, words):
    with pytest.raises(UsageError, match=words):
        check_options(options_with(option, write(content, mode=mode)))


@pytest.mark.parametrize(("architecture", "machine"), [(AMD64, 62), (ARM64, 183), (PPC64LE, 21)])
@pytest.mark.parametrize("option", ["runtime_binary", "containerd_binary"])
def test_a_program_is_for_the_cpu_of_its_machines(write, option, architecture, machine):
    options = options_with(option, write(elf(machine=machine)))
    assert check_options(options, [architecture]).brought
    for other in {AMD64, ARM64, PPC64LE} - {architecture}:
        words = rf"is built for {architecture.name}, and the machines are {other.name}\. .*a build for {other.name}"
        with pytest.raises(UsageError, match=words):
            check_options(options, [other])
        with pytest.raises(UsageError, match=rf"the machines are {other.name}\. .*run once for each architecture"):
            check_options(options, [architecture, other])


@pytest.mark.parametrize("option", ["kernel_image", "kernel_tree"])
def test_a_kernels_file_is_for_amd64_alone(write, option):
    with pytest.raises(UsageError, match=r"--kernel-(image|tree): it takes kernels of amd64 only, .* are arm64"):
        check_options(BootOptions(**{option: write(KERNEL, "k")}), [AMD64, ARM64])


@pytest.mark.parametrize("option", ["runtime_debs", "kernel_debs"])
def test_a_file_that_is_not_a_package_is_rejected(write, option):
    with pytest.raises(UsageError, match=r"--(runtime|kernel)-deb: '.*' is not a Debian package"):
        check_options(BootOptions(**{option: (write(b"PK"),)}))


def test_an_initrd_is_one_and_has_its_kernel(write):
    kernel = write(KERNEL, "k")
    with pytest.raises(UsageError, match="--initrd: an initrd needs its kernel"):
        check_options(BootOptions(initrd=write(b"070701", "i")))
    with pytest.raises(UsageError, match=r"--initrd: .*is not an initrd"):
        check_options(BootOptions(kernel_image=kernel, initrd=write(b"text", "i")))
    with pytest.raises(UsageError, match="not both"):
        check_options(BootOptions(kernel_image=kernel, kernel_debs=(write(DEB, "d"),)))


def test_a_missing_or_special_file_is_rejected(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        check_options(BootOptions(kernel_image=tmp_path / "none"))
    with pytest.raises(UsageError, match="is not a file"):
        check_options(BootOptions(containerd_config=tmp_path))


def test_words_for_the_old_hierarchy_come_from_the_profile():
    profile = replaced(LegacyBoot(kernel_arguments=("swapaccount=1",)))
    assert kernel_words(profile, BootOptions()) == ("root=/dev/vda",)
    assert kernel_words(profile, BootOptions(cgroup=CgroupVersion.V1)) == ("root=/dev/vda", "swapaccount=1")
    assert kernel_words(profile, BootOptions(recursiveprot=False)) == ("root=/dev/vda", "memqos.recursiveprot=0")


def test_a_hierarchy_that_a_profile_cannot_have_is_refused_with_its_reason():
    with pytest.raises(UsageError, match="'small' cannot boot with cgroup v1: systemd is too new"):
        kernel_words(replaced(LegacyBoot(refused="systemd is too new")), BootOptions(cgroup=CgroupVersion.V1))
    with pytest.raises(UsageError, match="cgroup v1 has no memory_recursiveprot"):
        kernel_words(
            replaced(LegacyBoot(kernel_arguments=("a",))),
            BootOptions(cgroup=CgroupVersion.V1, recursiveprot=False),
        )


def replaced(legacy):
    return PROFILE.__class__(**{name: getattr(PROFILE, name) for name in PROFILE.__slots__} | {"cgroup_v1": legacy})


@pytest.mark.parametrize(
    ("config", "passes"),
    [
        ("", False),
        ("version = 2", False),
        ('[plugins."io.containerd.grpc.v1.cri"]\ndisable_hugetlb_controller = false', True),
        ('[plugins."io.containerd.grpc.v1.cri"]\ndisable_hugetlb_controller = true', False),
        (V3, True),
    ],
)
def test_whether_huge_page_limits_are_passed_on_is_read_from_the_configuration(config, passes):
    assert passes_hugetlb(config.encode()) is passes


@pytest.mark.parametrize("option", ["--runtime", "--runtime-binary"])
def test_a_runtime_that_is_not_a_file_names_its_option(tmp_path, option):
    def error(path):
        with pytest.raises(UsageError) as caught:
            check_options(BootOptions(runtime_files=(RuntimeBinary(name="uxc", path=path, option=option),)))
        return str(caught.value)

    assert error(tmp_path) == f"{option}: '{tmp_path}' is not a file. Name the file itself."
    missing = error(Path("./build/uxc-that-is-missing"))
    assert missing.startswith(f"{option}: 'build/uxc-that-is-missing' cannot be read: No such file or directory.")
    assert f"A relative path starts from {Path.cwd()}." in missing


def test_a_runtime_takes_no_arguments(tmp_path):
    program = tmp_path / "uxc"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match=r"a runtime must be a file without arguments.*exec /opt/uxc --debug .*\$@"):
        check_options(BootOptions(runtime_files=(RuntimeBinary(name="uxc", path=Path(f"{program} --debug")),)))
