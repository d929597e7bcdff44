"""A kernel in the layout of a build: the machine installs it with its modules, and boots it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memqos.catalog.profiles import load_profile
from memqos.vm.cache.store import default_cache
from memqos.vm.image.making import ensure_image
from tests.vm.machines import output, start

pytestmark = [pytest.mark.vm, pytest.mark.profiles]


@pytest.fixture
def build_tree(tmp_path: Path) -> tuple[Path, str]:
    """Another profile's kernel as a build tree, and its release; its modules are read from the image's file system."""
    image = ensure_image(load_profile("bookworm"), default_cache(os.environ))
    release, tree = image.versions["kernel"], tmp_path / "linux"
    (tree / "arch/x86/boot").mkdir(parents=True)
    (tree / "include/config").mkdir(parents=True)
    shutil.copyfile(image.kernel, tree / "arch/x86/boot/bzImage")
    (tree / "include/config/kernel.release").write_text(f"{release}\n")
    debugfs = shutil.which("debugfs", path="/usr/sbin:/sbin:/usr/bin") or "debugfs"
    for request in (
        f"dump /boot/config-{release} {tree}/.config",
        f"rdump /usr/lib/modules/{release}/kernel {tmp_path}",
        f"dump /usr/lib/modules/{release}/modules.builtin {tree}/modules.builtin",
    ):
        subprocess.run([debugfs, "-R", request, image.disk], check=True, capture_output=True)
    for folder in (tmp_path / "kernel").iterdir():
        shutil.copytree(folder, tree / folder.name, dirs_exist_ok=True)
    modules = sorted(str(file.relative_to(tree)) for file in tree.rglob("*.ko"))
    (tree / "modules.order").write_text("".join(f"{name[:-3]}.o\n" for name in modules))
    return tree, release


def test_a_built_kernel_boots_with_its_modules(build_tree: tuple[Path, str], tmp_path: Path) -> None:
    tree, release = build_tree
    with start(tmp_path / "logs", kernel_tree=tree) as machine:
        assert output(machine, "uname", "-r").strip() == release
        assert "overlay" in output(machine, "sh", "-c", "modprobe overlay && lsmod")
        assert machine.provenance["kernel_tree"]
