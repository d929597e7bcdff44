"""Machine options from settings."""

from pathlib import Path

from memqos.config.settings import resolve
from memqos.model.node import CgroupVersion
from memqos.place.opening import boot_options
from memqos.vm.options import BootOptions, RuntimeBinary


def test_boot_options_follow_the_settings():
    assert boot_options(resolve({}, {})) == BootOptions()
    given = {
        "runtime": "crun",
        "runtime_binary": "r",
        "kernel_deb": ["k"],
        "no_recursiveprot": True,
        "cgroup": "v1",
        "no_checkpoint": True,
    }
    assert boot_options(resolve(given, {})) == BootOptions(
        runtime_files=(RuntimeBinary(name="crun", path=Path("r")),),
        kernel_debs=(Path("k"),),
        cgroup=CgroupVersion.V1,
        recursiveprot=False,
        checkpoint=False,
    )


def test_runtimes_that_no_image_has_get_handlers_where_a_daemon_runs_them():
    given = {
        "runtime": "oci:./build/uxc,containerd+youki,docker+./x/other,podman+./x/other,podman+youki,podman+crun,runc",
        "runtime_binary": ["youki=./y"],
    }
    options = boot_options(resolve(given, {}))
    assert options.runtime_files == (
        RuntimeBinary(name="youki", path=Path("y")),
        RuntimeBinary(name="uxc", path=Path("build/uxc"), option="--runtime"),
        RuntimeBinary(name="other", path=Path("x/other"), option="--runtime"),
    )
    assert options.handlers == ("youki",)
    assert options.docker_runtimes == ("other",)
    assert options.podman_runtimes == ("other", "youki")
