"""A run needs the QEMU of its machines' architecture, and of no other."""

import pytest

from memqos.config.settings import resolve
from memqos.errors import MissingProgramError
from memqos.place import opening
from memqos.vm.cache.store import Cache
from memqos.vm.host.progress import SILENT
from memqos.vm.qemu.accelerator import AcceleratorChoice
from memqos.vm.qemu.spec import Accelerator


def only(name):
    """A host that has the QEMU of this architecture alone."""

    def find(architecture):
        if architecture.name != name:
            raise MissingProgramError(f"{architecture.qemu} is missing.")
        return architecture.qemu

    return find


@pytest.mark.parametrize(
    ("profile", "architecture"), [("trixie", "amd64"), ("trixie-arm64", "arm64"), ("trixie-ppc64le-64k", "ppc64le")]
)
def test_a_profiles_machines_need_their_own_qemu(profile, architecture, monkeypatch):
    built = []
    monkeypatch.setattr(opening, "ensure_image", lambda profile, *_, **__: built.append(profile.name))
    settings = resolve({"profile": profile}, {})

    monkeypatch.setattr(opening, "find_qemu", only(architecture))
    opening.prepare_places(settings, progress=SILENT)
    assert built == [profile]

    monkeypatch.setattr(opening, "find_qemu", only("riscv64"))
    with pytest.raises(MissingProgramError):
        opening.prepare_places(settings, progress=SILENT)
    assert built == [profile]


class Built:
    """An image in the cache."""

    profile, architecture, kernel = "trixie-arm64", "arm64", "/cache/vmlinuz"


@pytest.mark.parametrize("accelerator", list(Accelerator))
def test_kvm_is_tried_with_the_images_own_architecture(accelerator, monkeypatch, tmp_path):
    tried = []

    def choose(qemu, kernel, *, cache, architecture):
        tried.append((qemu, kernel, architecture.name))
        return AcceleratorChoice(accelerator=accelerator, reason="")

    monkeypatch.setattr(opening, "kvm_device_obstacle", lambda: None)
    monkeypatch.setattr(opening, "list_images", lambda _: [Built()])
    monkeypatch.setattr(opening, "find_qemu", only("arm64"))
    monkeypatch.setattr(opening, "choose_accelerator", choose)

    emulated = opening.is_emulated(resolve({"profile": "trixie-arm64"}, {}), Cache(root=tmp_path))

    assert emulated is (accelerator is Accelerator.TCG)
    assert tried == [("qemu-system-aarch64", "/cache/vmlinuz", "arm64")]
