"""What settings say of a machine."""

from pathlib import Path

from memqos.config.settings import resolve
from memqos.model.node import CgroupVersion
from memqos.place.opening import boot_options
from memqos.vm.options import BootOptions


def test_a_machine_is_what_the_settings_say():
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
        runtime_binary=Path("r"),
        runtime_name="crun",
        kernel_debs=(Path("k"),),
        cgroup=CgroupVersion.V1,
        recursiveprot=False,
        checkpoint=False,
    )
