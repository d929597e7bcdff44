"""The parts of a checkpoint's name, and `boot` without one. Nothing is booted."""

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from memqos.catalog.profiles import load_profile
from memqos.errors import DamagedOriginError, MachineError, MachineryError, NoSpaceError
from memqos.model.topology import SwapDevice, Topology, TopologyNode
from memqos.vm import boot as module
from memqos.vm.architecture import AMD64, ARM64, PPC64LE
from memqos.vm.cache.entry import Image
from memqos.vm.checkpoint import Making
from memqos.vm.host.programs import Qemu
from memqos.vm.qemu.launch import Ingredients
from memqos.vm.qemu.spec import Accelerator
from tests.progress import Notes

MIB = 1 << 20
TOPOLOGY = Topology(
    name="one-numa-node",
    cpus=2,
    numa_nodes=(TopologyNode(id=0, memory_bytes=1024 * MIB, cpus=(0, 1)),),
    swap=(SwapDevice(size_bytes=64 * MIB, priority=10),),
)


@pytest.fixture
def making(tmp_path):
    folder = tmp_path / "trixie-0"
    folder.mkdir()
    ingredients = Ingredients(
        name="trixie-one-numa-node",
        qemu=Qemu(program=Path("/usr/bin/qemu-system-x86_64"), version=(10, 0, 2)),
        accelerator=Accelerator.TCG,
        topology=TOPOLOGY,
        kernel=folder / "vmlinuz",
        initrd=folder / "initrd.img",
        kernel_arguments=("root=/dev/vda", "rw"),
        disk=folder / "disk.img",
        identity=tmp_path / "id_ed25519",
        known_hosts=folder / "known_hosts",
        log_dir=tmp_path / "log",
    )
    return Making(
        ingredients=ingredients,
        image=Image(folder=folder, manifest={"profile": "trixie", "created": "2026-01-01"}),
        contents={"brought": ""},
        prepare=lambda _: None,
        boot_seconds=60,
    )


def with_ingredients(making, **changes):
    return replace(making, ingredients=replace(making.ingredients, **changes))


def with_topology(making, **changes):
    return with_ingredients(making, topology=replace(TOPOLOGY, **changes))


def test_a_name_describes_the_machine(making):
    assert making.name.startswith("trixie-one-numa-node-")
    assert len(making.name) == len("trixie-one-numa-node-") + 12


@pytest.mark.parametrize(
    "change",
    [
        lambda making: with_topology(making, numa_nodes=(TopologyNode(id=0, memory_bytes=1025 * MIB, cpus=(0, 1)),)),
        lambda making: with_topology(making, swap=()),
        lambda making: with_topology(making, swap=(SwapDevice(size_bytes=64 * MIB, priority=11),)),
        lambda making: with_ingredients(making, kernel_arguments=("root=/dev/vda", "ro")),
        lambda making: with_ingredients(making, accelerator=Accelerator.KVM),
        lambda making: with_ingredients(making, qemu=replace(making.ingredients.qemu, version=(10, 0, 3))),
        lambda making: replace(making, contents={"brought": "0123456789ab"}),
        lambda making: replace(
            making, image=replace(making.image, manifest={"profile": "trixie", "created": "2026-01-02"})
        ),
    ],
    ids=["memory", "swap", "priority", "command line", "accelerator", "QEMU", "contents", "image"],
)
def test_another_machine_has_another_name(making, change):
    assert change(making).name != making.name


def test_a_kernel_from_elsewhere_counts_by_its_content(making, tmp_path):
    kernel = tmp_path / "my-vmlinuz"
    kernel.write_bytes(b"one")
    first = with_ingredients(making, kernel=kernel).name
    kernel.write_bytes(b"two")
    second = with_ingredients(making, kernel=kernel).name
    assert len({making.name, first, second}) == 3


def test_what_differs_from_run_to_run_does_not_count(making, tmp_path):
    elsewhere = with_ingredients(
        making,
        log_dir=tmp_path / "other",
        identity=tmp_path / "other",
        keepable=True,
        qemu=replace(making.ingredients.qemu, program=Path("/opt/qemu")),
    )
    assert elsewhere.name == making.name


def test_the_guest_code_of_memqos_counts(making, monkeypatch):
    before = making.name
    monkeypatch.setattr("memqos.vm.checkpoint.WARM", "true")
    assert making.name != before


class Checkpoint:
    def __init__(self, name):
        self.name = name


@pytest.fixture
def world(monkeypatch):
    """Checkpoints c1, c2 …, some of which cannot be restored."""
    made, discarded, bad = [], [], set()

    def ensure(making, cache, *, progress):
        made.append(f"c{len(made) + 1}")
        return Checkpoint(made[-1])

    @contextlib.contextmanager
    def restored(ingredients, checkpoint, *, cache, deadline):
        if checkpoint.name in bad:
            raise MachineError("the migration failed.\nThe console said nothing.")
        yield SimpleNamespace(name=f"machine of {checkpoint.name}")

    monkeypatch.setattr(module, "ensure_checkpoint", ensure)
    monkeypatch.setattr(module, "restored", restored)
    monkeypatch.setattr(module, "discard_checkpoint", lambda gone, _, **_kw: discarded.append(gone.name))
    return made, discarded, bad


def restore(making, notes):
    with contextlib.ExitStack() as stack:
        return module.restore_machine(stack, making, None, notes)


def test_an_unusable_checkpoint_is_recreated_with_one_note(world, making):
    made, discarded, bad = world
    bad.add("c1")
    notes = Notes()
    assert restore(making, notes).name == "machine of c2"
    assert (made, discarded) == (["c1", "c2"], ["c1"])
    assert notes.notes == ["the checkpoint 'c1' cannot be restored and is rebuilt: the migration failed."]


def test_a_second_failure_is_the_machine_s(world, making):
    made, _, bad = world
    bad.update({"c1", "c2"})
    with pytest.raises(MachineError, match="the migration failed"):
        restore(making, Notes())
    assert made == ["c1", "c2"]


def test_without_room_the_machine_is_booted_with_a_note(monkeypatch, making):
    def no_room(making, cache, *, progress):
        raise NoSpaceError("the disk has 3 MiB free, and 1024 MiB are needed.")

    monkeypatch.setattr(module, "ensure_checkpoint", no_room)
    notes = Notes()
    assert restore(making, notes) is None
    [told] = notes.notes
    assert told.startswith("No room for a checkpoint, so the machine boots without one: the disk has 3 MiB free")


@pytest.mark.parametrize(
    ("architecture", "accelerator", "keeps"),
    [
        (PPC64LE, Accelerator.TCG, False),
        (PPC64LE, Accelerator.KVM, True),
        (ARM64, Accelerator.TCG, True),
        (AMD64, Accelerator.TCG, True),
    ],
)
def test_an_emulated_ppc64le_machine_boots_each_time_and_it_is_said(making, architecture, accelerator, keeps):
    """In a clone of its checkpoint a CPU had no tick any more, and the kernel's watchdog found it locked up."""
    notes = Notes()
    ingredients = replace(making.ingredients, architecture=architecture, accelerator=accelerator)
    assert module.keeps_timers(ingredients, notes) is keeps
    assert notes.notes == (
        []
        if keeps
        else ["each machine boots: QEMU restores no timers of an emulated ppc64le machine from a checkpoint."]
    )


@pytest.mark.parametrize(("found", "whole"), [((True, True), True), ((False, True), False), ((True, False), False)])
def test_what_fails_in_a_machine_has_its_checkpoint_and_its_image_checked_in_full(
    monkeypatch, making, tmp_path, found, whole
):
    machine = SimpleNamespace(recheck=lambda: found[0], target=None)
    monkeypatch.setattr(module, "recheck_image", lambda *_, **__: found[1])
    monkeypatch.setattr(module, "making_of", lambda *_, **__: making)
    monkeypatch.setattr(module, "restore_machine", lambda *_: machine)
    booting = module.boot(load_profile("trixie"), TOPOLOGY, image_cache=None, log_dir=tmp_path / "log")
    with pytest.raises(MachineryError, match="the runtime was killed") as caught, booting:
        raise MachineError("the runtime was killed by SIGILL.")
    assert type(caught.value) is (MachineError if whole else DamagedOriginError)
