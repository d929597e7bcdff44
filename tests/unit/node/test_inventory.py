"""What pods leave on a machine, read with the machine's own tools: cgroups, mounts, units, processes, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memqos.node.requests import inventory
from memqos.node.requests.inventory import Inventory, anonymous_memory_of, inventory_of
from memqos.target.local import LocalTarget


def test_an_inventory_of_this_machine_is_read() -> None:
    before = Inventory(cgroups=("/a", "/a"), mounts=("/",), processes=("runc",))
    now = Inventory(cgroups=("/a", "/a", "/a", "/b"), mounts=("/",), units=("x.scope",))
    assert now.beyond(before) == Inventory(cgroups=("/a", "/b"), units=("x.scope",))
    assert not before.beyond(before)


def test_what_a_machine_has_is_read_with_its_own_tools(tmp_path: Any) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)
    found = inventory_of(LocalTarget(), str(tmp_path))
    assert set(found.cgroups) == {f"{tmp_path}/one", f"{tmp_path}/one/two"}
    assert "/" in found.mounts


def test_a_process_that_ends_while_all_are_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no process 0: it is one that was there when they were listed."""
    listed = inventory.WEIGH_SCRIPT.replace("/proc/[0-9]*/status", "/proc/0/status /proc/[0-9]*/status")
    monkeypatch.setattr(inventory, "WEIGH_SCRIPT", listed)

    assert anonymous_memory_of(LocalTarget(), [Path("/proc/self/comm").read_text().strip()]) >= 1 << 20


def test_the_memory_of_processes_is_found_by_their_names() -> None:
    names = [Path("/proc/self/comm").read_text().strip(), "no-such-program"]
    assert anonymous_memory_of(LocalTarget(), names) >= 1 << 20
    assert anonymous_memory_of(LocalTarget(), ["no-such-program"]) == 0


def test_more_than_two_gib_is_still_a_number(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """mawk prints integers from 2**31 on with an exponent."""
    for name, kib in (("1", 3 << 20), ("2", 12345)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "status").write_text(f"Name:\tdockerd\nRssAnon:\t {kib} kB\n")
    monkeypatch.setattr(inventory, "WEIGH_SCRIPT", inventory.WEIGH_SCRIPT.replace("/proc/", f"{tmp_path}/"))

    assert anonymous_memory_of(LocalTarget(), ["dockerd"]) == 3233866752
