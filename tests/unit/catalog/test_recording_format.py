"""Recordings as people have them: redirected, compressed, cut, written by hand, and by another version."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memqos.cli.main import run
from tests.recorded_nodes import recorded_node

CONFIGURED = "/kubepods.slice/kubepods-burstable.slice"


def written(document: dict[str, Any]) -> bytes:
    """As `memqos collect` writes it: the cgroups last."""
    last = {name: one for name, one in document.items() if name != "cgroups"} | {"cgroups": document["cgroups"]}
    return json.dumps(last, indent=1).encode()


def judged(content: bytes, folder: Path, capsys: pytest.CaptureFixture[str], name: str = "n1.json") -> tuple[int, str]:
    (folder / name).write_bytes(content)
    code = run(["audit", str(folder / name)])
    out, err = capsys.readouterr()
    return code, out + err


def node() -> dict[str, Any]:
    return recorded_node("n1", pods=6, seed=1)


def test_a_file_of_powershell_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its > writes UTF-16 with a mark."""
    for coded in ("utf-16", "utf-8-sig"):
        code, out = judged(written(node()).decode().encode(coded), tmp_path, capsys)
        assert (code, " 0 deviate" in out) == (0, True), out
    code, out = judged(b"\xff\xfe{\x00\xd8", tmp_path, capsys)
    assert (code, "begins like UTF-16, and is not all of it" in out) == (4, True), out


@pytest.mark.parametrize(("made", "says"), [
    (gzip.compress, "the file is compressed (gzip)"), (lzma.compress, "the file is compressed (xz)"),
    (bz2.compress, "the file is compressed (bzip2)"), (lambda _: b" \n", "the file is empty"),
    (lambda one: b"memqos-collect: pods: no answer\n" + one, "n1.json:1: standard error of memqos collect"),
    (lambda one: b'{"x": 1}\nmemqos: note\n' + one, "n1.json:2: standard error of memqos collect"),
    (lambda one: one[:500], "the recording ends in the middle, before its first interface file"),
    (lambda one: one.replace(b"Running", b"Runn\xffing", 1), "is not UTF-8"), (lambda _: b"<html>", "this is not JSON"),
])  # fmt: skip
def test_another_file_is_refused_with_its_cause(
    made: Callable[[bytes], bytes], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = judged(made(written(node())), tmp_path, capsys)
    assert (code, says in out) == (4, True), out


def test_a_byte_that_is_no_text_is_named_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = judged(b'{\n"memqos_collect": 1,\n"source": "\xff"\n}', tmp_path, capsys)
    assert (code, "n1.json:3: byte 34 is not UTF-8" in out) == (4, True), out


@pytest.mark.parametrize(("name", "value", "says"), [
    ("memqos_collect", 2, "a newer memqos collected it: format 2, and this one reads 1"),
    ("kubelet", "v1.99.0", "n1.json: kubelet: there is no Kubernetes release 'v1.99.0'"),
])  # fmt: skip
def test_what_this_memqos_has_no_rules_for_is_refused(
    name: str, value: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = judged(written(node() | {name: value}), tmp_path, capsys)
    assert (code, says in out) == (4, True), out


def test_a_page_size_that_the_recorded_amounts_exclude_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every value that is no multiple deviated."""
    document = node()
    document["node"]["page_size"] = 65536
    document["cgroups"][CONFIGURED]["memory.current"] = "135168"
    code, out = judged(written(document), tmp_path, capsys)
    assert (code, "node.page_size: amounts of memory in the recording are not multiples of 65536" in out) == (4, True)


def test_numbers_whole_paths_and_what_kubelet_prints_are_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In files written by hand."""
    document = node()
    document["kubelet"] = "Kubernetes v1.36.0"
    document["cgroups"] = {
        f"/sys/fs/cgroup{path}": {name: int(text) if text.isdigit() else text for name, text in files.items()}
        for path, files in document["cgroups"].items()
    }
    code, out = judged(written(document), tmp_path, capsys)
    assert (code, " 0 deviate, 0 not observable" in out) == (0, True), out
    document["cgroups"][f"/sys/fs/cgroup{CONFIGURED}"]["memory.low"] = 4096
    code, out = judged(written(document), tmp_path, capsys)
    assert (code, "memory.low of kubepods-burstable.slice is 4096, expected" in out) == (1, True), out
    document["cgroups"][f"/sys/fs/cgroup{CONFIGURED}"]["memory.low"] = True
    assert judged(written(document), tmp_path, capsys)[0] == 4


def test_a_recording_that_lost_its_configuration_is_not_judged_by_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty list of flags is no configuration: a kubelet without a file has flags."""
    document = node()
    del document["config"]
    assert document["unread"] == []
    code, out = judged(written(document), tmp_path, capsys)
    assert (code, " 0 deviate" in out, "the kubelet's configuration is not known" in out) == (0, True, True), out
    code, out = judged(written(document | {"unread": ["--kube-reserved=memory=1Gi,cpu=500m"]}), tmp_path, capsys)
    assert (code, "memory.low of kubepods-burstable.slice" in out) == (1, True), out
