"""Runtimes that memqos does not model, in a real machine: judged by the specification, and never wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.runs import bundle, memqos_run

pytestmark = pytest.mark.vm

MINIMAL = Path(__file__).parents[1] / "runtimes" / "minimal.py"
RENAMED = """\
#!/bin/sh
case "$*" in --version) echo "uxc version 0.1"; exit 0;; esac
exec crun "$@"
"""


def outcomes(folder):
    return {result["outcome"] for result in bundle(folder)["results"]}


def judged(folder):
    """The knobs of findings that conform, of the runtime itself."""
    found = [finding for result in bundle(folder)["results"] for finding in result["findings"]]
    return {one["knob"] for one in found if one["verdict"] == "conforms" and one["set_by"] == "the runtime under test"}


def test_crun_under_another_name_conforms_with_and_without_containerd(tmp_path):
    """Its processes are in a cgroup below the scope, which only a test container shows."""
    program = tmp_path / "uxc"
    program.write_text(RENAMED)
    program.chmod(0o755)
    folder = tmp_path / "results"

    done = memqos_run(
        folder, "--runtime", f"oci:{program},containerd+{program}", "-k", "bundle-no-swap or update-limit or limit-only"
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes(folder) == {"not observable"}
    assert {"memory.max", "oom_score_adj"} <= judged(folder)
    assert "uxc 0.1" in done.stdout


def test_a_runtime_of_the_specifications_commands_alone_conforms(tmp_path):
    folder = tmp_path / "results"

    done = memqos_run(
        folder,
        *("--runtime", f"oci:{MINIMAL}", "--driver", "cgroupfs"),
        *("-k", "bundle-no-swap or bundle-unified or part-limit"),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert {"memory.max", "memory.swap.max", "oom_score_adj"} <= judged(folder)
    updates = [one for one in bundle(folder)["results"] if "part-limit" in one["id"]]
    assert {"no command" in one["reason"] or "update" in one["reason"] for one in updates} == {True}


def test_a_driver_that_a_runtime_does_not_have_is_named(tmp_path):
    done = memqos_run(tmp_path / "results", "--runtime", f"oci:{MINIMAL}", "-k", "bundle-nothing")

    assert done.returncode == 4
    assert "does not run under the systemd driver: its help does not list --systemd-cgroup" in done.stdout
