"""The launcher in a checkout of its own, with a PATH that holds only what the test puts there.

Nothing is installed: apt-get, tee, id and Python are scripts that write down what they were asked.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[2] / "memqos"

TOOLS = (
    *("cat", "chmod", "cksum", "cp", "dirname", "env", "flock", "grep", "head", "mkdir", "mktemp", "printf"),
    *("readlink", "rm", "sed", "sh", "tail", "touch", "tr"),
)

PYTHON = r"""
echo "python $*" >>"$CALLS"
case "$*" in
    *sys.version_info*) echo "${FAKE_PYTHON_VERSION:-3.11}" ;;
    *ensurepip*) exit "${FAKE_NO_VENV:-0}" ;;
    "-m venv "*)
        for folder; do :; done
        mkdir -p "$folder/bin"
        cp "$0" "$folder/bin/python"
        for program in memqos tox; do
            printf '#!/bin/sh\necho %s "$@"\n' "$program" >"$folder/bin/$program"
            chmod +x "$folder/bin/$program"
        done
        ;;
    "-m pip "*) [ -z "${FAKE_PIP_FAILS-}" ] || { echo "pip: no matching distribution"; exit 1; } ;;
esac
"""

APT_GET = r"""
echo "apt-get $*" >>"$CALLS"
case "$*" in
    *indextargets*) printf '%s\n' "Debian|${CODENAME}|main|http://mirror.example/debian/" ;;
    *install*)
        [ -z "${FAKE_APT_FAILS-}" ] || { echo "E: Unable to locate package"; exit 100; }
        printf '#!/bin/sh\necho QEMU emulator version 10.0.2\n' >"$BIN/qemu-system-x86_64"
        chmod +x "$BIN/qemu-system-x86_64"
        ;;
esac
"""

APT_CACHE = r"""
case "$*" in
    *-backports*) echo '  Candidate: 1:10.0.2+ds-2' ;;
    *) echo "  Candidate: 1:${FAKE_OFFERED:-10.0.2}+dfsg-1" ;;
esac
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.calls_file = folder / "checkout", folder / "bin", folder / "calls"
        self.folder.mkdir()
        self.bin.mkdir()
        self.calls_file.touch()
        shutil.copy(LAUNCHER, self.folder / "memqos")
        (self.folder / "pyproject.toml").write_text("[project]\n")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.program("python3", PYTHON)
        self.program("apt-get", APT_GET)
        self.program("apt-cache", APT_CACHE)
        self.program("id", "echo ${FAKE_UID:-0}")
        self.program("uname", "echo ${FAKE_MACHINE:-x86_64}")
        self.program("tee", 'echo "tee $*" >>"$CALLS"; cat >>"$CALLS"')

    def program(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def have_everything(self, qemu: str = "10.0.2") -> None:
        for name in ("qemu-img", "mmdebstrap", "mke2fs", "ssh", "setpriv", "gcc", "newuidmap"):
            self.program(name, "exit 0")
        self.program("qemu-system-x86_64", f"echo 'QEMU emulator version {qemu}'")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        codename = next(
            line.partition("=")[2].strip()
            for line in [*Path("/etc/os-release").read_text().splitlines(), "VERSION_CODENAME="]
            if line.startswith("VERSION_CODENAME=")
        )
        return subprocess.run(
            [self.folder / "memqos", *arguments],
            env={
                "PATH": str(self.bin),
                "HOME": str(self.folder),
                "CALLS": str(self.calls_file),
                "BIN": str(self.bin),
                "CODENAME": codename,
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self, program: str) -> list[str]:
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(f"{program} ")]


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_arguments_reach_the_command_line_unchanged(checkout):
    result = checkout.run("expect", "a b.yaml", "--why", "memory.high")
    assert (result.returncode, result.stdout) == (0, "memqos expect a b.yaml --why memory.high\n")


def test_python_verbs_need_no_virtual_machine(checkout):
    for arguments in (["expect", "pod.yaml"], ["--version"], ["--help"], ["run", "--help"], []):
        assert checkout.run(*arguments).returncode == 0
    assert checkout.calls("apt-get") == []


def test_the_second_call_does_nothing_again(checkout):
    checkout.have_everything()
    first = checkout.run("run", FAKE_UID="0")
    done = checkout.calls_file.read_text()
    second = checkout.run("run")
    assert (first.returncode, second.returncode) == (0, 0)
    assert "making the virtual environment" in first.stderr
    assert second.stderr == ""
    new = checkout.calls_file.read_text().removeprefix(done)
    assert "pip" not in new
    assert "venv" not in new


def test_changed_dependencies_are_installed_again(checkout):
    checkout.run("--version")
    (checkout.folder / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    result = checkout.run("--version")
    assert "installing memqos" in result.stderr
    assert "making the virtual environment" not in result.stderr
    assert checkout.run("--version").stderr == ""


def test_what_is_missing_is_named_with_its_reason_and_installed(checkout):
    checkout.have_everything()
    (checkout.bin / "qemu-system-x86_64").unlink()
    (checkout.bin / "mmdebstrap").unlink()
    result = checkout.run("vm", "build")
    assert result.returncode == 0, result.stderr
    assert "missing: qemu-system-x86 (QEMU 8.2 or newer runs the virtual machines)" in result.stderr
    assert "missing: mmdebstrap (builds the machines' root file system)" in result.stderr
    (install,) = [call for call in checkout.calls("apt-get") if " install " in call]
    assert "--no-install-recommends" in install
    assert {"qemu-system-x86", "mmdebstrap"} <= set(install.split())


@pytest.mark.parametrize("words", [("list",), ("rm", "kept-ab"), ("prune",), ("ssh-config",), ("list", "--json"), ()])
def test_what_makes_no_machine_needs_nothing_that_machines_need(checkout, words):
    """An ordinary user was asked for uidmap to look at a list."""
    checkout.have_everything()
    for program in ("qemu-system-x86_64", "mmdebstrap", "newuidmap"):
        (checkout.bin / program).unlink(missing_ok=True)
    result = checkout.run("vm", *words, FAKE_UID="1000")
    assert (result.returncode, result.stdout) == (0, f"memqos {' '.join(('vm', *words))}\n")
    assert "missing" not in result.stderr
    assert checkout.calls("apt-get") == []


@pytest.mark.parametrize("verb", ["build", "shell", "exec"])
def test_an_ordinary_user_needs_uidmap_to_make_a_machine(checkout, verb):
    checkout.have_everything()
    (checkout.bin / "newuidmap").unlink(missing_ok=True)
    checkout.program("sudo", 'echo "sudo $*" >>"$CALLS"; exec "$@"')
    result = checkout.run("vm", verb, FAKE_UID="1000")
    assert "missing: uidmap (lets an ordinary user build an image)" in result.stderr


@pytest.mark.parametrize(
    ("machine", "program", "package"),
    [("aarch64", "qemu-system-aarch64", "qemu-system-arm"), ("ppc64le", "qemu-system-ppc64", "qemu-system-ppc")],
)
def test_a_host_of_another_architecture_needs_the_qemu_of_its_own(checkout, tmp_path, machine, program, package):
    checkout.have_everything()
    (tmp_path / "os-release").write_text("ID=debian\n")
    (checkout.bin / "qemu-system-x86_64").rename(checkout.bin / program)
    assert checkout.run("run", FAKE_MACHINE=machine).returncode == 0
    assert checkout.calls("apt-get") == []

    (checkout.bin / program).unlink()
    (tmp_path / "os-release").write_text("ID=nixos\n")
    (checkout.bin / "apt-get").unlink()
    lacking = checkout.run("vm", "build", FAKE_MACHINE=machine, OS_RELEASE=str(tmp_path / "os-release"))
    assert lacking.returncode == 6
    assert f"missing: {package} (QEMU 8.2 or newer runs the virtual machines)" in lacking.stderr
    assert "qemu-system-x86" not in lacking.stderr


def test_an_old_qemu_is_replaced_from_the_suite_s_backports(checkout):
    checkout.have_everything(qemu="7.2.17")
    result = checkout.run("run", FAKE_OFFERED="7.2")
    assert result.returncode == 0, result.stderr
    assert "QEMU 7.2 crashes guests" in result.stderr
    written = checkout.calls_file.read_text()
    assert "tee /etc/apt/sources.list.d/memqos-backports.sources" in written
    assert "URIs: http://mirror.example/debian/\n" in written
    (install,) = [call for call in checkout.calls("apt-get") if " install " in call]
    assert "-backports qemu-system-x86" in install


def test_a_good_qemu_in_the_suite_needs_no_backports(checkout):
    checkout.have_everything()
    (checkout.bin / "qemu-system-x86_64").unlink()
    assert checkout.run("run", FAKE_OFFERED="8.2").returncode == 0
    assert "tee" not in checkout.calls_file.read_text()


def test_an_ordinary_user_installs_through_sudo(checkout):
    checkout.have_everything()
    (checkout.bin / "mmdebstrap").unlink()
    checkout.program("sudo", 'echo "sudo $*" >>"$CALLS"; exec "$@"')
    assert checkout.run("run", FAKE_UID="1000").returncode == 0
    assert any("apt-get" in call and " install " in call for call in checkout.calls("sudo"))


def test_without_root_and_sudo_the_command_is_printed(checkout):
    checkout.have_everything()
    (checkout.bin / "mmdebstrap").unlink()
    result = checkout.run("run", FAKE_UID="1000")
    assert result.returncode == 6
    assert "As root: apt-get install --no-install-recommends" in result.stderr
    assert "mmdebstrap" in result.stderr


def test_a_user_whom_sudo_does_not_let_is_told_the_command_before_anything_is_tried(checkout):
    checkout.have_everything()
    (checkout.bin / "mmdebstrap").unlink()
    checkout.program("sudo", "echo 'sudo: a terminal is required to read the password' >&2; exit 1")
    result = checkout.run("run", FAKE_UID="1000")
    assert result.returncode == 6
    said = result.stderr.partition("sudo: a terminal is required to read the password\n")[2]
    assert said == ("memqos: installing needs root. As root: apt-get install --no-install-recommends mmdebstrap\n")
    assert checkout.calls("apt-get") == []


def test_without_apt_the_packages_are_printed(checkout):
    checkout.have_everything()
    (checkout.bin / "mmdebstrap").unlink()
    (checkout.bin / "apt-get").unlink()
    result = checkout.run("run")
    assert result.returncode == 6
    assert "has no apt" in result.stderr
    last_line = result.stderr.splitlines()[-1]
    assert "mmdebstrap" in last_line.partition("and call again:")[2].split()


def test_a_failing_step_shows_what_it_said(checkout):
    checkout.have_everything()
    (checkout.bin / "mmdebstrap").unlink()
    result = checkout.run("run", FAKE_APT_FAILS="1")
    assert result.returncode == 6
    assert "E: Unable to locate package" in result.stderr
    result = checkout.run("--version", FAKE_PIP_FAILS="1")
    assert result.returncode == 6
    assert "pip: no matching distribution" in result.stderr


def test_a_failed_installation_is_tried_again(checkout):
    assert checkout.run("--version", FAKE_PIP_FAILS="1").returncode == 6
    assert checkout.run("--version").stdout == "memqos --version\n"


@pytest.mark.parametrize("version", ["3.9", "3.10"])
def test_an_old_python_is_refused(checkout, version):
    result = checkout.run("--version", FAKE_PYTHON_VERSION=version)
    assert result.returncode == 6
    assert f"is Python {version}, and memqos needs 3.11 or newer" in result.stderr


def test_no_python_is_said(checkout):
    result = checkout.run("--version", MEMQOS_PYTHON="python3.99")
    assert (result.returncode, result.stderr) == (6, "memqos: there is no python3.99. Install Python 3.11 or newer.\n")


def test_a_python_without_venv_gets_its_package(checkout):
    result = checkout.run("--version", FAKE_NO_VENV="1")
    assert "missing: python3-venv (makes the virtual environment)" in result.stderr


def test_the_project_s_tests_run_by_tox(checkout):
    checkout.have_everything()
    result = checkout.run("test", "-e", "unit", "--", "-k", "quantity")
    assert (result.returncode, result.stdout) == (0, "tox -e unit -- -k quantity\n")
    assert any("[dev]" in call for call in checkout.calls("python"))


@pytest.mark.parametrize(
    "words", [("-e", "browser"), ("-ebrowser",), ("-e", "lint,browser"), ("run", "-e", "browser", "--", "-x")]
)
def test_the_tests_of_the_report_get_the_browser_that_they_need(checkout, words):
    checkout.have_everything()
    result = checkout.run("test", *words)
    assert result.returncode == 0, result.stderr
    assert "missing: chromium (opens reports in the project's tests)" in result.stderr
    (install,) = [call for call in checkout.calls("apt-get") if " install " in call]
    assert install.endswith("--no-install-recommends chromium")


@pytest.mark.parametrize("program", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_that_is_there_is_taken(checkout, program):
    checkout.have_everything()
    checkout.program(program, "exit 0")
    assert checkout.run("test", "-e", "browser").returncode == 0
    assert checkout.calls("apt-get") == []


@pytest.mark.parametrize("words", [("-e", "unit"), (), ("-e", "unit", "--", "-k", "browser")])
def test_other_tests_need_no_browser(checkout, words):
    checkout.have_everything()
    assert "chromium" not in checkout.run("test", *words).stderr


def test_a_link_to_the_launcher_finds_its_checkout(checkout, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to(checkout.folder / "memqos")
    result = subprocess.run(
        [link, "--version"],
        env={"PATH": str(checkout.bin), "CALLS": str(checkout.calls_file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "memqos --version\n"
    assert (checkout.folder / ".venv").is_dir()


FAMILIES = {
    "fedora": ('ID=fedora\n', "dnf install qemu-system-x86-core qemu-img", ""),
    "rocky": ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install qemu-system-x86-core qemu-img", ""),
    "tumbleweed": (
        'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper install qemu-x86 qemu-tools", "mmdebstrap",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("has_apt", [False, True])
def test_other_distributions_get_the_list_by_their_own_names(checkout, tmp_path, name, has_apt):
    """Also where apt is installed, for building images of Debian: it installs nothing on such a host."""
    os_release, command, lacking = FAMILIES[name]
    (tmp_path / "os-release").write_text(os_release)
    if not has_apt:
        (checkout.bin / "apt-get").unlink()

    result = checkout.run("run", OS_RELEASE=str(tmp_path / "os-release"))

    assert result.returncode == 6
    assert command in result.stderr
    assert "apt-get install" not in result.stderr
    assert ("no package of these" in result.stderr) is bool(lacking)
    assert lacking in result.stderr
    assert checkout.calls("apt-get") == []


@pytest.mark.parametrize("name", FAMILIES)
def test_other_distributions_go_on_if_all_is_there(checkout, tmp_path, name):
    checkout.have_everything()
    (tmp_path / "os-release").write_text(FAMILIES[name][0])
    (checkout.bin / "apt-get").unlink()

    result = checkout.run("run", "-k", "a", OS_RELEASE=str(tmp_path / "os-release"))

    assert (result.returncode, result.stdout) == (0, "memqos run -k a\n"), result.stderr


def test_an_unknown_distribution_without_apt_gets_debians_names(checkout, tmp_path):
    (tmp_path / "os-release").write_text("ID=nixos\n")
    (checkout.bin / "apt-get").unlink()

    result = checkout.run("run", OS_RELEASE=str(tmp_path / "os-release"))

    assert result.returncode == 6
    assert "by the names that Debian gives them, and call again: qemu-system-x86 qemu-utils" in result.stderr
