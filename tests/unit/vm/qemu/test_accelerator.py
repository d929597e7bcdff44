import json

import pytest

from memqos.vm.architecture import ARM64
from memqos.vm.cache.store import Cache
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu import accelerator as module
from memqos.vm.qemu.accelerator import choose_accelerator, kvm_device_obstacle, kvm_obstacle
from memqos.vm.qemu.spec import Accelerator


@pytest.fixture
def device(tmp_path, monkeypatch):
    path = tmp_path / "kvm"
    path.touch()
    monkeypatch.setattr(module, "KVM", path)
    return path


@pytest.fixture
def boot_id(tmp_path, monkeypatch):
    path = tmp_path / "boot_id"
    path.write_text("first\n")
    monkeypatch.setattr(module, "BOOT_ID", path)
    return path


def qemu(folder, script="exit 0"):
    program = folder / "qemu"
    program.write_text(f"#!/bin/sh\necho probed >>{folder}/probes\n{script}\n")
    program.chmod(0o755)
    return Qemu(program=program, version=(10, 0, 2))


def test_without_the_device_there_is_no_kvm(device):
    device.unlink()
    assert kvm_device_obstacle() == f"{device} does not exist"


def test_a_qemu_that_aborts_means_no_kvm_and_is_quoted(device, tmp_path):
    aborting = qemu(tmp_path, 'echo "error: failed to set MSR 0x10a" >&2; exit 134')
    obstacle = kvm_obstacle(aborting, tmp_path / "vmlinuz")
    assert obstacle == "KVM does not run a guest here (error: failed to set MSR 0x10a)"


def test_the_answer_is_kept_for_this_boot_of_the_host(device, boot_id, tmp_path):
    cache, aborting = Cache(root=tmp_path / "cache"), qemu(tmp_path, "echo broken >&2; exit 1")
    for _ in range(2):
        choice = choose_accelerator(aborting, tmp_path / "vmlinuz", cache=cache)
        assert choice.accelerator is Accelerator.TCG
    assert (tmp_path / "probes").read_text() == "probed\n"
    boot_id.write_text("second\n")
    choose_accelerator(aborting, tmp_path / "vmlinuz", cache=cache)
    assert (tmp_path / "probes").read_text() == "probed\nprobed\n"


def test_emulation_is_reported_with_its_cause_and_its_cost(device, boot_id, tmp_path):
    choice = choose_accelerator(qemu(tmp_path, "exit 1"), tmp_path / "vmlinuz", cache=Cache(root=tmp_path / "cache"))
    assert "KVM does not run a guest here" in choice.reason
    assert "software emulation (TCG), ten to thirty times slower" in choice.reason


def test_a_damaged_cached_answer_is_replaced(device, boot_id, tmp_path):
    cache = Cache(root=tmp_path / "cache")
    kept = cache.folder("locks") / "accelerator.json"
    kept.write_text("{")
    choose_accelerator(qemu(tmp_path, "exit 1"), tmp_path / "vmlinuz", cache=cache)
    assert (tmp_path / "probes").exists()
    assert json.loads(kept.read_text())["key"]["boot"] == "first"


def test_a_kept_yes_is_kvm(device, boot_id, tmp_path):
    cache, program = Cache(root=tmp_path / "cache"), qemu(tmp_path, "exit 1")
    choose_accelerator(program, tmp_path / "vmlinuz", cache=cache)
    kept = cache.folder("locks") / "accelerator.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "obstacle": None}))
    assert choose_accelerator(program, tmp_path / "vmlinuz", cache=cache).accelerator is Accelerator.KVM


def test_another_architecture_is_emulated_whatever_the_host_has(device, tmp_path, monkeypatch):
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    choice = choose_accelerator(
        qemu(tmp_path), tmp_path / "vmlinuz", cache=Cache(root=tmp_path / "cache"), architecture=ARM64
    )
    assert choice.accelerator is Accelerator.TCG
    assert choice.obstacle == "KVM runs no aarch64 guest on a x86_64 host"
    assert choice.reason.startswith("the machine's CPU is aarch64, this host's is x86_64: it runs under software emul")
    assert not (tmp_path / "probes").exists()


def test_on_a_host_of_its_own_architecture_kvm_is_tried(boot_id, tmp_path, monkeypatch):
    monkeypatch.setattr(module.platform, "machine", lambda: "aarch64")
    asked = []
    monkeypatch.setattr(module, "kvm_obstacle", lambda _, kernel, architecture: asked.append((kernel, architecture)))
    choice = choose_accelerator(
        qemu(tmp_path), tmp_path / "vmlinuz", cache=Cache(root=tmp_path / "cache"), architecture=ARM64
    )
    assert choice.accelerator is Accelerator.KVM
    assert asked == [(tmp_path / "vmlinuz", ARM64)]
