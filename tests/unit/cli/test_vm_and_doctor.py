import fcntl
import json
import os
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from memqos.catalog.profiles import load_profile
from memqos.cli import doctor, vm, vm_shell
from memqos.errors import ExitCode, MissingProgramError, UnknownNameError, UsageError
from memqos.vm.cache.entry import write_manifest
from memqos.vm.cache.store import default_cache
from memqos.vm.checkpoint import checkpoints_folder, seal_checkpoint
from memqos.vm.image.making import image_name
from memqos.vm.qemu.accelerator import AcceleratorChoice
from memqos.vm.qemu.spec import Accelerator
from tests.documents import misfits


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


TCG = "machines run under software emulation (TCG), ten to thirty times slower than with KVM"
VERBS = ("build", "exec", "list", "prune", "rm", "shell", "ssh-config")


def invoke(command, *arguments, **options):
    return CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False, **options)


@pytest.mark.parametrize("arguments", [["--help"], *([verb, "--help"] for verb in VERBS)])
def test_help_teaches_with_an_example(arguments):
    told = CliRunner().invoke(vm.command, arguments)
    assert told.exit_code == 0
    assert "memqos vm" in told.output


def test_an_empty_cache_gets_a_hint(cache):
    told = invoke(vm.command, "list").output
    assert f"Images in {cache}/images: none; `memqos vm build` builds one" in told
    with_numa_nodes = "two-numa-nodes, two-numa-nodes-no-swap"
    others = "eight-cpus, far-memory, four-numa-nodes, hugepages, one-numa-node, small-swaps"
    assert f"Topologies: {others}, {with_numa_nodes}." in told
    assert "  trixie: Debian 13: kernel 6.12" in told


@pytest.mark.parametrize(
    ("words", "additions"),
    [((), ()), (("--runtime", "docker+runc"), ("docker",)), (("--runtime", "oci:runsc"), ("runsc",))],
)
def test_an_image_is_built_with_the_runtimes_of_a_run(cache, monkeypatch, words, additions):
    asked = []

    def ensure_image(profile, cache, *, progress):
        asked.append((profile.name, profile.additions))
        return SimpleNamespace(folder=cache.images / profile.name)

    monkeypatch.setattr(vm, "ensure_image", ensure_image)
    told = invoke(vm.command, "build", "trixie", "bookworm", *words)
    assert asked == [("trixie", additions), ("bookworm", additions)]
    assert told.output.splitlines()[-2:] == [f"{cache}/images/trixie", f"{cache}/images/bookworm"]


def test_list_as_json(cache):
    facts = json.loads(invoke(vm.command, "list", "--json").output)
    assert misfits(facts, "cache") == []
    assert facts["cache"] == str(cache)
    assert facts["images"] == []
    assert (facts["checkpoints"], facts["kept"]) == ([], [])
    assert {profile["name"]: profile["cgroup_v1"][:13] for profile in facts["profiles"]} == {
        "bookworm": "yes",
        "forky": "systemd 258 r",
        "forky-ppc64le-64k": "systemd 258 r",
        "sid": "systemd 258 r",
        "trixie": "Debian builds",
        "trixie-arm64": "Debian builds",
        "trixie-arm64-16k": "Debian builds",
        "trixie-bpo": "Debian builds",
        "trixie-ppc64le-64k": "Debian builds",
    }


@pytest.mark.parametrize("arguments", [["build", "sarge"], ["shell", "sarge"], ["exec", "sarge", "true"]])
def test_an_unknown_profile_is_named_with_the_known_ones(cache, arguments):
    with pytest.raises(UnknownNameError, match=r"there is no profile 'sarge'\. Known: .*trixie"):
        invoke(vm.command, *arguments)


def test_an_unknown_topology_is_refused_before_anything_is_built(cache):
    with pytest.raises(UnknownNameError, match="there is no topology 'nine-zones'"):
        invoke(vm.command, "shell", "--topology", "nine-zones")
    assert not (cache / "images").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rm"], "Name a profile or anything that `memqos vm list` lists, or give --all."),
        (["rm", "trixie", "--all"], "Name a profile or anything that `memqos vm list` lists, or give --all."),
        (["build", "trixie", "--all"], "Name profiles, or give --all."),
        (["exec", "trixie"], "Missing argument 'COMMAND...'"),
    ],
)
def test_missing_and_excess_arguments_are_rejected(cache, arguments, words):
    told = CliRunner().invoke(vm.command, arguments)
    assert told.exit_code == 2
    assert words in told.output


def test_removing_an_unknown_name_lists_the_known_ones(cache):
    entry(cache, "trixie-0123456789ab")
    with pytest.raises(
        UnknownNameError, match=r"there is no profile, image, .* 'sarge'\. Known: .*trixie-0123456789ab"
    ):
        invoke(vm.command, "rm", "sarge")


def test_a_machine_with_options_that_do_not_fit_is_refused_before_anything_is_built(cache):
    with pytest.raises(UsageError, match=r"the profile 'forky' cannot boot with cgroup v1: systemd 258"):
        invoke(vm.command, "shell", "forky", "--cgroup", "v1")
    with pytest.raises(UsageError, match=r"--kernel-deb: '/nowhere\.deb' cannot be read"):
        invoke(vm.command, "exec", "--kernel-deb", "/nowhere.deb", "trixie", "true")
    assert not (cache / "images").exists()


def test_an_option_in_the_place_of_a_command_is_refused_before_anything_is_built(cache):
    """It was passed to ssh, which rejected it once the machine was up."""
    with pytest.raises(UsageError, match=r"'--keep' is not a command\. Put options of memqos before 'trixie'\."):
        invoke(vm.command, "exec", "trixie", "--keep", "true")
    assert not (cache / "images").exists()


def test_two_dashes_before_a_command_are_no_part_of_it(monkeypatch):
    asked = []
    monkeypatch.setattr(vm_shell, "into", lambda name, words, _: asked.append((name, words)) or 0)
    invoke(vm.command, "exec", "trixie", "--", "uname", "-r")
    assert asked == [("trixie", ("uname", "-r"))]


def test_without_a_kept_machine_there_is_no_ssh_configuration(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(UnknownNameError, match="`memqos vm shell --keep` creates one"):
        invoke(vm.command, "ssh-config")


def entry(cache, name, **manifest):
    """A complete image in the cache."""
    folder = cache / "images" / name
    folder.mkdir(parents=True)
    for file in ("disk.img", "vmlinuz", "initrd.img", "known_hosts"):
        (folder / file).write_bytes(b"1")
    facts = {"profile": name.rpartition("-")[0], "created": "2026-01-02T03:04:05+00:00", **manifest}
    write_manifest(folder / "image.json", facts, mode=0o444)
    return folder


def names(cache):
    return sorted(path.name for path in (cache / "images").iterdir())


def test_an_image_is_listed_with_its_versions_and_whether_a_run_would_use_it(cache):
    entry(cache, "trixie-0123456789ab", versions={"kernel": "6.12"})
    told = invoke(vm.command, "list").output
    line = next(line for line in told.splitlines() if "trixie-0123456789ab" in line)
    assert line.endswith("days old  outdated")
    assert "    kernel 6.12" in told
    [image] = json.loads(invoke(vm.command, "list", "--json").output)["images"]
    assert (image["current"], image["age"] > 86400) == (False, True)


def test_pruning_keeps_everything_a_run_would_use(cache):
    present = image_name(load_profile("bookworm"), default_cache({"MEMQOS_CACHE": str(cache)}))
    for name in ("bookworm-0123456789ab", present, f"{present}-with-0123456789ab", "gone-0123456789ab"):
        entry(cache, name)
    (entry(cache, image_name(load_profile("forky"), default_cache({"MEMQOS_CACHE": str(cache)}))) / "vmlinuz").unlink()
    would = invoke(vm.command, "prune", "--dry-run").output
    assert len(names(cache)) == 5
    told = invoke(vm.command, "prune").output
    assert told.count("removed") == 3
    assert would.replace("would remove", "removed") == told
    assert names(cache) == [present, f"{present}-with-0123456789ab"]


def checkpoint(cache, name, image):
    """A complete checkpoint in the cache, of this image."""
    folder = checkpoints_folder(default_cache({"MEMQOS_CACHE": str(cache)})) / name
    folder.mkdir()
    for file in ("state", "root.qcow2"):
        (folder / file).write_bytes(b"1" * 5000)
    seal_checkpoint(folder, {"image": image, "created": "2026-01-02T03:04:05+00:00"})
    return folder


def test_pruning_names_checkpoints_and_leftovers_before_it_removes_them(cache):
    present = image_name(load_profile("bookworm"), default_cache({"MEMQOS_CACHE": str(cache)}))
    for name in (present, "gone-0123456789ab"):
        entry(cache, name)
    kept = checkpoint(cache, "bookworm-one-numa-node-0", present)
    doomed = [
        checkpoint(cache, "gone-one-numa-node-0", "gone-0123456789ab"),
        checkpoint(cache, "lost-one-numa-node-0", "lost-0123456789ab"),
        cache / "images/.building-bookworm-x",
        cache / "images/.removing-forky-0123456789ab",
        cache / "checkpoints/.making-x",
        cache / "machines/memqos-run-x",
    ]
    for folder in doomed[2:]:
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    working = cache / "images/.building-forky-x"
    working.mkdir()
    with (working / "owner.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        would = invoke(vm.command, "prune", "--dry-run").output
        assert all(f"would remove {folder}  " in would for folder in doomed)
        assert would.count("would remove") == len(doomed) + 1
        assert all(folder.exists() for folder in doomed)
        assert invoke(vm.command, "prune").output == would.replace("would remove", "removed")
    assert [kept.exists(), working.exists(), *(folder.exists() for folder in doomed)] == [True, True] + [False] * 6
    assert names(cache) == sorted([working.name, present])


def test_a_profiles_images_are_its_own(cache):
    """trixie is not trixie-bpo, despite the common prefix."""
    for name in ("trixie-0123456789ab", "trixie-0123456789ab-with-0123456789ab", "trixie-bpo-0123456789ab"):
        entry(cache, name)
    invoke(vm.command, "rm", "trixie")
    assert names(cache) == ["trixie-bpo-0123456789ab"]


def test_one_image_or_everything_can_be_removed(cache):
    for name in ("trixie-0123456789ab", "trixie-aaaaaaaaaaaa", "forky-0123456789ab"):
        entry(cache, name)
    invoke(vm.command, "rm", "trixie-0123456789ab")
    assert names(cache) == ["forky-0123456789ab", "trixie-aaaaaaaaaaaa"]
    invoke(vm.command, "rm", "--all")
    assert names(cache) == []


def test_removing_takes_complete_and_damaged_entries(cache):
    (cache / "images/trixie-0123456789ab").mkdir(parents=True)
    (cache / "images/other-0123456789ab").mkdir()
    assert "removed" in invoke(vm.command, "rm", "trixie").output
    assert [path.name for path in (cache / "images").iterdir()] == ["other-0123456789ab"]


def test_doctor_names_missing_parts_and_their_packages(cache, monkeypatch):
    def missing(_):
        raise MissingProgramError("the program 'qemu' is not installed.", next_step="Install it: apt-get install qemu")

    monkeypatch.setattr(doctor, "find_qemu", missing)
    told = invoke(doctor.command)
    assert (
        "missing  QEMU: the program 'qemu' is not installed.\n         Install it: apt-get install qemu\n"
        in told.output
    )
    assert told.return_value == ExitCode.ENVIRONMENT


def test_doctor_as_json_has_the_verdict(cache):
    told = invoke(doctor.command, "--json")
    diagnosis = json.loads(told.output)
    assert misfits(diagnosis, "doctor") == []
    assert diagnosis["able"] is all(check["ok"] for check in diagnosis["checks"])
    assert [check["name"] for check in diagnosis["checks"]][:4] == ["Python", "CPU", "QEMU", "acceleration"]


def test_doctor_reports_that_machines_have_another_cpu():
    told = doctor.check_processor("riscv64", ())
    assert not told.ok
    assert told.found == "riscv64, but the machines that memqos boots are x86_64, aarch64, ppc64le"
    assert "--target" in told.fix
    own = doctor.check_processor("aarch64", ())
    assert own.ok
    assert own.fix == "Choose its machines with --arch arm64: images of amd64 are built on x86_64 hosts alone."
    assert doctor.check_processor("x86_64", ("aarch64",)).found == "x86_64; --target also for aarch64"
    assert doctor.check_processor("x86_64", ()).found == "x86_64; --target for x86_64 alone"


def test_doctor_lists_needs_of_other_architectures_without_failing(monkeypatch):
    def find_qemu(architecture):
        if architecture.name == "arm64":
            raise MissingProgramError("the program is not installed.")
        return SimpleNamespace(version_text="10.0.2", program="/usr/bin/qemu")

    monkeypatch.setattr(doctor, "find_qemu", find_qemu)
    monkeypatch.setattr(doctor, "find_compiler", lambda _: None)
    monkeypatch.setattr(doctor, "find_program", lambda name: name)
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    assert [doctor.check_line(check) for check in doctor.check_other_architectures()] == [
        (
            "ok       aarch64 machines: not set up; only profiles for arm64 need it. Install it: apt-get install "
            "--no-install-recommends qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross kmod"
        ),
        "ok       ppc64le machines: emulated by QEMU 10.0.2 (/usr/bin/qemu)",
    ]
    monkeypatch.setattr(doctor, "find_qemu", lambda _: SimpleNamespace(version_text="10.0.2", program="/usr/bin/qemu"))
    assert [doctor.check_line(check) for check in doctor.check_other_architectures()] == [
        "ok       aarch64 machines: emulated by QEMU 10.0.2 (/usr/bin/qemu)",
        "ok       ppc64le machines: emulated by QEMU 10.0.2 (/usr/bin/qemu)",
    ]


@pytest.mark.parametrize(("machine", "architecture"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("ppc64le", "amd64")])
def test_doctor_lists_uefi_without_failing(monkeypatch, machine, architecture):
    monkeypatch.setattr(doctor.platform, "machine", lambda: machine)
    monkeypatch.setattr(doctor, "find_uefi", lambda asked: SimpleNamespace(code=f"/usr/share/{asked.name}.fd"))
    assert doctor.check_line(doctor.check_uefi()) == (
        f"ok       UEFI: /usr/share/{architecture}.fd, for disk images (--image)"
    )

    def missing(_):
        raise MissingProgramError("this host has no UEFI.", next_step="Install it: apt-get install ovmf")

    monkeypatch.setattr(doctor, "find_uefi", missing)
    assert doctor.check_line(doctor.check_uefi()) == (
        "ok       UEFI: not set up; only disk images (--image) that boot by UEFI need it. "
        "Install it: apt-get install ovmf"
    )


@pytest.mark.parametrize(
    ("accelerator", "obstacle", "line"),
    [
        (
            Accelerator.TCG,
            "KVM does not run a guest here (it stopped in state 'internal-error')",
            f"slow     acceleration: {TCG}: KVM does not run a guest here (it stopped in state 'internal-error')",
        ),
        (Accelerator.KVM, "", "ok       acceleration: KVM runs guests on this host."),
    ],
)
def test_doctor_marks_slow_checks(cache, monkeypatch, accelerator, obstacle, line):
    """It printed "ok KVM: KVM does not run a guest here"."""
    choice = AcceleratorChoice(accelerator=accelerator, reason="KVM runs guests on this host.", obstacle=obstacle)
    monkeypatch.setattr(doctor, "kvm_device_obstacle", lambda: None)
    monkeypatch.setattr(doctor, "find_qemu", lambda _: SimpleNamespace(version_text="10.0", program="qemu"))
    monkeypatch.setattr(
        doctor,
        "list_images",
        lambda _: iter(
            [
                SimpleNamespace(kernel="arm", architecture="arm64"),
                SimpleNamespace(kernel="vmlinuz", architecture="amd64"),
            ]
        ),
    )
    monkeypatch.setattr(doctor, "choose_accelerator", lambda *_, **__: choice)
    check = doctor.check_acceleration(cache)
    assert doctor.check_line(check) == line
    assert doctor.is_able([check])


def test_doctor_without_kvm_reports_it_and_passes(cache, monkeypatch):
    monkeypatch.setattr(doctor, "kvm_device_obstacle", lambda: "there is no /dev/kvm")
    told = doctor.check_line(doctor.check_acceleration(cache))
    assert told == f"slow     acceleration: {TCG}: there is no /dev/kvm"


def test_doctors_help_promises_no_installing():
    told = " ".join(invoke(doctor.command, "--help").output.split())
    assert "It only checks and installs nothing" in told


def test_a_failed_check_fails_the_host():
    fine = doctor.Check(name="a", ok=True, found="there")
    assert doctor.is_able([fine])
    assert not doctor.is_able([fine, doctor.Check(name="b", ok=False, found="not there", fix="install b")])


def test_the_bench_prints_what_to_expect():
    figures = {
        "boot": 21.4,
        "running": 0.08,
        "first command": 0.91,
        "first CRI answer": 1.31,
        "first container": 4.2,
        "asked": 1.2,
        "load": 0.4,
    }
    lines = "\n".join(doctor.expectations(figures))
    assert lines == (
        "measured  boot to the runtime's first answer: 21.4 s\n"
        "          restore to the guest running: 0.08 s, to its first command: 0.91 s, "
        "to the runtime's first answer: 1.31 s\n"
        "          first container: 4.2 s after the request for its machine\n"
        "expect    22 s more in the first run, for the checkpoint, then 1 s for each new machine; "
        "measured under a load of 0.4"
    )
    assert list(doctor.expectations({})) == []


def test_pruning_keeps_an_image_with_several_additions(cache):
    profile = load_profile("trixie", additions=("docker", "runsc"))
    both = image_name(profile, default_cache({"MEMQOS_CACHE": str(cache)}))
    entry(cache, both)
    entry(cache, "trixie-0123456789ab")
    invoke(vm.command, "prune")
    assert names(cache) == [both]


@pytest.mark.parametrize(("runtime", "added"), [("docker+runc", ("docker",)), ("oci:runsc", ("runsc",)), ("crun", ())])
def test_a_shell_has_the_requested_runtime(cache, monkeypatch, runtime, added):
    asked = []

    def boot(profile, *_, **__):
        asked.append(profile.additions)
        raise UsageError("that is enough.")

    monkeypatch.setattr(vm_shell, "boot", boot)
    with pytest.raises(UsageError, match="that is enough"):
        invoke(vm.command, "shell", "trixie", "--runtime", runtime)
    assert asked == [added]
