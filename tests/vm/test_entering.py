"""A machine that `memqos vm` leaves running: found again, entered with ssh and scp, and ended."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.vm

SECONDS = 300


@pytest.fixture
def memqos(tmp_path):
    """`memqos vm …` with a temporary folder of its own, short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="mq-") as base:

        def call(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
            done = subprocess.run(
                [sys.executable, "-m", "memqos", "vm", *words],
                env={**os.environ, "TMPDIR": base, "XDG_RUNTIME_DIR": base},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == status, done.stdout + done.stderr
            return done

        call.temporary = Path(base)
        yield call


def test_a_kept_machine_is_entered_by_its_name_by_ssh_and_by_scp_until_it_is_ended(memqos, tmp_path):
    told = memqos(
        "exec", "--keep", "--topology", "one-numa-node", "trixie", "sh", "-c", "echo here >/root/mark; exit 7", status=7
    )
    name = re.search(r"kept as (kept-\S+):", told.stderr)[1]
    try:
        [kept] = json.loads(memqos("list", "--json").stdout)["kept"]
        assert (kept["name"], kept["machine"]) == (name, "trixie-one-numa-node")
        assert f"  {name}  trixie-one-numa-node  " in memqos("list").stdout
        assert memqos("exec", name, "cat", "/root/mark").stdout == "here\n"
        config, file = tmp_path / "config", tmp_path / "file"
        config.write_text(memqos("ssh-config").stdout)
        file.write_text("from outside\n")
        subprocess.run(["scp", "-q", "-F", config, file, "memqos:/root/file"], check=True, timeout=SECONDS)
        argv = ["ssh", "-F", config, "memqos", "cat /root/file; uname -n"]
        assert subprocess.check_output(argv, text=True, timeout=SECONDS) == "from outside\nmemqos\n"
        assert Path(next(memqos.temporary.glob("memqos-log-*/serial.log"))).stat().st_size > 0
    finally:
        assert memqos("rm", name).stdout == f"ended {name}\n"
    assert list(memqos.temporary.iterdir()) == []
    assert json.loads(memqos("list", "--json").stdout)["kept"] == []


def test_a_machine_that_is_not_kept_leaves_nothing(memqos):
    assert memqos("exec", "--topology", "one-numa-node", "trixie", "sh", "-c", "exit 3", status=3).stdout == ""
    assert list(memqos.temporary.iterdir()) == []
