"""A user's files in a machine exist, are used, and are recorded; unfit ones are rejected in one sentence."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from memqos.catalog.data import data_root
from memqos.catalog.profiles import load_profile
from memqos.clock import Deadline
from memqos.errors import UnfitFileError, UsageError
from memqos.vm.cache.store import default_cache
from memqos.vm.checkpoint import list_checkpoints
from memqos.vm.guest.installing import install, put_trees, start_units
from memqos.vm.image.making import ensure_image
from memqos.vm.options import BootOptions, RuntimeBinary, check_options
from memqos.vm.trees import CopiedTree, bring_tree
from tests.vm.machines import output, start

pytestmark = pytest.mark.vm

CONTROL = """\
Package: vendor-runtime
Version: 1.0
Architecture: amd64
Maintainer: nobody
Depends: what-is-nowhere
Description: a runtime beside the image's
"""


@pytest.fixture
def package(tmp_path):
    """A Debian package with a runc that reports another version than the image's."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    program = tree / "usr/local/sbin/runc"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo runc version 9.9.9; exit; }\nexec /usr/sbin/runc "$@"\n'
    )
    program.chmod(0o755)
    file = tmp_path / "vendor-runtime.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, file], check=True, capture_output=True)
    return file


def test_packages_programs_configuration_and_kernel_are_used_and_recorded(tmp_path, package):
    image = ensure_image(load_profile("trixie"), default_cache(os.environ))
    kernel, initrd = (
        Path(shutil.copy(path, tmp_path / name)) for path, name in ((image.kernel, "k"), (image.initrd, "i"))
    )
    wrapper = tmp_path / "containerd"
    wrapper.write_text('#!/bin/sh\nexec -a "$0" "$0.dist" "$@"\n'.replace("/bin/sh", "/bin/bash"))
    wrapper.chmod(0o755)
    config = tmp_path / "config.toml"
    shipped = data_root() / "vm/guest/containerd-v2/etc/containerd/config.toml"
    config.write_text(
        shipped.read_text().replace("disable_hugetlb_controller = false", "disable_hugetlb_controller = true")
    )
    brought = {
        "runtime_debs": (package,), "containerd_binary": wrapper, "containerd_config": config, "kernel_image": kernel,
        "initrd": initrd,
    }  # fmt: skip
    # A topology that no other test here boots: a machine that differs from it would not come up.
    with start(tmp_path / "log", topology="four-numa-nodes", checkpoint=False, **brought) as machine:
        zones = output(machine, "sh", "-c", "ls -d /sys/devices/system/node/node[0-9]*").split()
        assert len(zones) == 4
        known = machine.provenance
        assert "checkpoint" not in known
        assert known["versions"]["runc"] == "9.9.9"
        assert known["packages"]["vendor-runtime"] == "1.0"
        assert known["containerd_config"]["hugetlb"] is False
        assert "disable_hugetlb_controller = true" in output(machine, "containerd", "config", "dump")
        place = output(machine, "sh", "-c", "command -v containerd").strip()
        assert machine.target.read(place, deadline=Deadline.after(30)) == wrapper.read_bytes()
        assert "Server:" in output(machine, "ctr", "version")
        assert known["containerd_binary"]["sha256"] == hashlib.sha256(wrapper.read_bytes()).hexdigest()
        assert known["kernel_image"][0]["sha256"] == hashlib.sha256(kernel.read_bytes()).hexdigest()
        assert known["runtime_deb"][0]["sha256"] == hashlib.sha256(package.read_bytes()).hexdigest()


def test_a_runtime_is_installed_in_a_restored_machine_and_tried_there(tmp_path):
    """Each build costs seconds, and no checkpoint; one that does not run there is rejected before any pod starts."""

    with start(tmp_path / "log") as machine:
        plain = machine.provenance["checkpoint"]

    def checkpoints():
        """Those of machines like this one: other tests may be the first to need others."""
        like, _, _ = plain.rpartition("-")
        return {one.name for one in list_checkpoints(default_cache(os.environ)) if one.name.startswith(like)}

    before = checkpoints()
    program = tmp_path / "my-runc"
    program.write_text('#!/bin/sh\ncase "$1" in --version | features) exit 1 ;; esac\nexec runc.dist "$@"\n')
    program.chmod(0o755)
    with start(tmp_path / "log", runtime_files=(RuntimeBinary(name="runc", path=program),)) as machine:
        assert machine.provenance["checkpoint"] == plain
        assert machine.provenance["runtime_binary"]["says"] == {"name": "", "version": ""}
        assert "runc" not in machine.provenance["versions"]
        assert machine.provenance["versions"]["crun"]
        assert output(machine, "runc", "list", "--quiet") == ""
    program.write_text("#!/usr/bin/python2.7\n")
    with (
        pytest.raises(
            UsageError, match=r"--runtime-binary: '.*' does not run .*'#!/usr/bin/python2\.7' names is missing"
        ),
        start(tmp_path / "log", runtime_files=(RuntimeBinary(name="runc", path=program),)),
    ):
        pass
    assert checkpoints() == before


def test_what_does_not_fit_the_machine_is_the_persons_to_mend(tmp_path, package):
    """The rejections by dpkg and containerd, for packages and a file."""
    broken = tmp_path / "broken.deb"
    broken.write_bytes(package.read_bytes()[:200])
    with (
        start(tmp_path / "log") as machine,
        pytest.raises(UsageError, match=r"--runtime-deb: .*broken\.deb' cannot be installed"),
    ):
        install(machine, check_options(BootOptions(runtime_debs=(broken,))))
    config = tmp_path / "config.toml"
    config.write_text("version = 2\n[grpc]\naddress = 7\n")
    with (
        pytest.raises(UsageError, match="--containerd-config: containerd does not start"),
        start(tmp_path / "log", containerd_config=config),
    ):
        pass


UNIT = """\
[Service]
ExecStart=/usr/local/bin/vendor-daemon
[Install]
WantedBy=multi-user.target
"""
DAEMON = """\
#!/bin/sh
cat /etc/vendor/latest >/var/tmp/told
exec sleep infinity
"""


@pytest.mark.ports
def test_a_daemon_outside_every_profile_runs_with_its_files(tmp_path, package):
    folder = tmp_path / "vendor"
    folder.mkdir()
    (folder / "1.conf").write_text("one\n")
    (folder / "latest").symlink_to("1.conf")
    (tmp_path / "daemon").write_text(DAEMON)
    (tmp_path / "vendor.service").write_text(UNIT)
    files = (
        CopiedTree(tmp_path / "daemon", "/usr/local/bin/vendor-daemon", 0o755),
        CopiedTree(tmp_path / "vendor.service", "/etc/systemd/system/vendor.service"),
        CopiedTree(folder, "/etc/vendor"),
    )
    brought = {"guest_files": files, "guest_units": ("vendor.service",), "guest_debs": (package,)}
    with start(tmp_path / "log", checkpoint=False, **brought) as machine:
        assert output(machine, "cat", "/var/tmp/told") == "one\n"
        assert output(machine, "systemctl", "is-active", "vendor").strip() == "active"
        assert output(machine, "stat", "-c", "%U %a", "/usr/local/bin/vendor-daemon").strip() == "root 755"
        known = machine.provenance
        assert [one["destination"] for one in known["guest_file"]] == [file.destination for file in files]
        assert known["guest_unit"] == ["vendor.service"]
        assert known["packages"]["vendor-runtime"] == "1.0"
        target = machine.target
        for wrong, why in (("/usr/bin", "is a folder"), ("/usr/bin/tar", "tar")):
            tree = bring_tree("--guest-file", CopiedTree(tmp_path / "daemon", wrong))
            with pytest.raises(UnfitFileError, match=f"--guest-file: .* cannot be copied to {wrong} .*{why}"):
                put_trees(target, [tree], deadline=Deadline.after(60))
        (tmp_path / "bad.service").write_text(UNIT.replace("vendor-daemon", "nothing"))
        tree = bring_tree("--guest-file", CopiedTree(tmp_path / "bad.service", "/etc/systemd/system/bad.service"))
        put_trees(target, [tree], deadline=Deadline.after(60))
        with pytest.raises(UnfitFileError, match=r"(?s)the unit bad\.service does not run.*nothing"):
            start_units(target, ("bad.service",))
