"""The shell script that reads the state of a container without a daemon, with a script in place of the runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memqos.runtime.base import ContainerState
from memqos.runtime.oci_commands import GONE, BundleFolders, SeenContainer, looking, seen

RUNS = """echo '{"status": "running"}'"""
LOST = "echo 'cgroup.freeze: no such device' >&2; exit 1"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    (folder / "exits").mkdir(parents=True)
    (folder / "config.json").touch()
    return folder


def look(bundle: Path, does: str) -> subprocess.CompletedProcess[str]:
    """The answer to a look at the container "one" of this bundle, when the runtime does this."""
    runtime = bundle.parent / "runtime"
    runtime.write_text(f"#!/bin/sh\nexits={bundle}/exits\n{does}\n")
    runtime.chmod(0o755)
    places = BundleFolders(program=str(runtime), name="runc", systemd=True)
    argv = looking(places, sandbox="pod", container="one")
    argv[argv.index(places.bundle("pod", "one"))] = str(bundle)
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_running_container_has_its_runtimes_state(bundle: Path) -> None:
    answer = look(bundle, RUNS)
    assert (answer.returncode, seen(answer.stdout)) == (0, SeenContainer(state=ContainerState.RUNNING))


def test_for_an_ended_container_the_runtime_is_not_queried(bundle: Path) -> None:
    (bundle / "exits" / "one").write_text("137\n")
    (bundle / "oom").touch()
    answer = look(bundle, LOST)
    assert seen(answer.stdout) == SeenContainer(state=ContainerState.EXITED, exit_code=137, oom=True)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_runtime_may_find_an_ending_container_half_removed(bundle: Path) -> None:
    answer = look(bundle, f'(sleep 0.2; echo 137 >"$exits/one") >/dev/null 2>&1 & {LOST}')
    assert (answer.returncode, seen(answer.stdout).exit_code) == (0, 137)


def test_a_failing_runtime_with_a_live_container_is_reported(bundle: Path) -> None:
    answer = look(bundle, "echo 'no state.json' >&2; exit 3")
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "", "no state.json\n")


def test_what_has_no_bundle_is_gone(bundle: Path) -> None:
    (bundle / "config.json").unlink()
    assert look(bundle, RUNS).returncode == GONE
