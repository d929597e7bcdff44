"""Files that a person names: plain ones of a bounded size, read so that a signal is heeded."""

import gzip
import json
import os
import signal
import subprocess
import sys

import pytest

from memqos.bundles import reading
from memqos.bundles.reading import read_results
from memqos.catalog.topologies import load_topology
from memqos.cli.main import run
from memqos.config.files import settings_files
from memqos.errors import UsageError
from memqos.known import load_baseline, load_known
from memqos.plain_file import read_plain
from memqos.vm.options import bring
from tests.recorded import TRIXIE, copied

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
READERS = {
    "known": load_known,
    "baseline": load_baseline,
    "topology": lambda file: load_topology(str(file)),
    "binary": lambda file: bring("--runtime-binary", file, lambda *_: None),
}
each_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@each_reader
def test_a_device_and_a_pipe_are_refused(tmp_path, read):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("pipe.json", "zero.json"):
        with pytest.raises(UsageError, match=r"a pipe|a device|is not a file"):
            read(tmp_path / name)


@each_reader
def test_a_folder_and_what_is_not_there_are_told(tmp_path, read):
    (tmp_path / "folder.json").mkdir()
    for name in ("folder.json", "none.json"):
        with pytest.raises(UsageError):
            read(tmp_path / name)


@each_reader
def test_a_file_without_end_is_refused(tmp_path, read):
    """Sparse: it takes no room."""
    with (tmp_path / "long.json").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(UsageError, match="MiB, and is not read"):
        read(tmp_path / "long.json")


def test_a_plain_file_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_plain(tmp_path / "a", most=100) == b"x" * 100
    (tmp_path / "link").symlink_to("a")
    assert len(read_plain(tmp_path / "link", most=100)) == 100
    with pytest.raises(UsageError):
        read_plain(tmp_path / "a", most=99)


@pytest.mark.parametrize("name", ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"])
def test_a_pipe_in_the_place_of_a_settings_file_is_named(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="it is a pipe, not a plain file") as caught:
        settings_files(tmp_path)
    assert caught.value.where == str(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("pytest.ini", b"[pytest]\nmemqos_driver = a\nmemqos_driver = b\n", "ini:3: 'memqos_driver' occurs twice"),
        ("pytest.ini", b"[pytest]\nmemqos_driver = systemd\n[pytest]\n", "pytest.ini:3: '[pytest]' occurs twice"),
        ("pytest.ini", b"memqos_driver = systemd\n", "pytest.ini:1: the line is in no section"),
        ("tox.ini", b"[pytest\nmemqos_driver = systemd\n", "tox.ini:1: the line is in no section"),
        ("pytest.ini", b"[pytest]\n= 3\nmemqos_driver = systemd\n", "pytest.ini:2: the line is neither"),
        ("pytest.ini", b"[pytest]\nmemqos_driver = \xff\n", "pytest.ini: byte 25 is not UTF-8 (0xff)"),
        ("pyproject.toml", b"[tool.memqos]\ndriver = '\xe9'\n", "pyproject.toml: byte 24 is not UTF-8 (0xe9)"),
        ("pyproject.toml", "[tool.memqos]\n".encode("utf-16"), "pyproject.toml: byte 0 is not UTF-8 (0xff)"),
        ("pyproject.toml", b"[tool.memqos]\ndriver = 'a'\ndriver = 'b'\n", "pyproject.toml:3: the file is not TOML"),
    ],
)  # fmt: skip
def test_a_settings_file_that_cannot_be_read_is_named_and_not_ignored(tmp_path, name, data, says):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError) as caught:
        settings_files(tmp_path)
    assert says in str(caught.value)


def test_a_settings_file_of_another_encoding_without_memqos_is_ignored(tmp_path):
    (tmp_path / "setup.cfg").write_bytes(b"[metadata]\nauthor = Ren\xe9\n")
    assert settings_files(tmp_path) == {}


def test_a_signal_ends_the_reading_of_what_has_no_end(tmp_path):
    os.mkfifo(tmp_path / "pod.yaml")
    command = [sys.executable, "-m", "memqos", "expect", "pod.yaml", "--kubernetes", "1.36"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "pod.yaml").open("w"):  # it has opened the pipe, and waits for a text
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (2, "memqos: interrupted.")


def test_manifests_and_configurations_may_come_through_a_pipe(tmp_path):
    """As the shell's <(…) gives them."""
    config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "pod").write_text(json.dumps(POD))
    (tmp_path / "config").write_text(config)
    (tmp_path / "node").write_text("memory: 4Gi\n")
    command = (
        f"exec {sys.executable} -m memqos expect <(cat pod) --kubelet-config <(cat config) --node <(cat node) "
        "--kubernetes 1.36"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "memory.max" in done.stdout


def test_a_compressed_file_of_one_endless_line_is_not_read_to_its_end(tmp_path):
    folder = copied(tmp_path / "r")
    (folder / "findings.jsonl").unlink()
    with gzip.open(folder / "findings.jsonl.gz", "wb") as file:
        for _ in range(64):
            file.write(b"0" * (1 << 20))
    results = read_results(folder)
    assert "findings.jsonl.gz was not read to its end: line 1 has more than 16 MiB." in results.missing
    assert len(results.bundle.results) == 4


@pytest.mark.parametrize(("name", "value", "says"), [
    ("LONGEST_FINDINGS", 1000, "it has more than 0 MiB"),
    ("MOST_CASES", 3, "it has more than 3 lines"),
])  # fmt: skip
def test_a_file_beyond_what_any_run_writes_is_not_read_to_its_end(tmp_path, monkeypatch, name, value, says):
    monkeypatch.setattr(reading, name, value)
    folder = copied(tmp_path / "r", killed=True)
    assert f"findings.jsonl was not read to its end: {says}." in read_results(folder).missing


def test_a_file_of_damaged_lines_is_not_read_to_its_end(tmp_path):
    folder = copied(tmp_path / "r", killed=True)
    (folder / "findings.jsonl").write_text("x\n" * 5000)
    assert "findings.jsonl was not read to its end: it has hundreds of damaged lines." in read_results(folder).missing


def test_a_bundle_beyond_what_any_run_writes_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_BUNDLE", 1 << 10)
    assert "bundle.json was not read: the file has more than 0 MiB, and is not read." in read_results(TRIXIE).missing


def test_a_day_that_is_over_accepts_nothing(capsys, tmp_path):
    assert run(["baseline", str(TRIXIE), "--until", "2020-02-29", "--reason", "r"]) == 4
    assert "--until: 2020-02-29 is over: the baseline would accept nothing." in capsys.readouterr().err


def test_what_a_folder_holds_beside_manifests_is_named(capsys, tmp_path):
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "pods" / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pods" / "pipe.yml")
    (tmp_path / "pods" / "linked").symlink_to(tmp_path)
    (tmp_path / "pods" / "text.txt").symlink_to("nowhere")
    assert run(["expect", "-R", str(tmp_path / "pods"), "--kubernetes", "1.36"]) == 0
    err = capsys.readouterr().err
    assert "pods/gone.yaml (a dangling link: no such file or directory)." in err
    assert "pods/pipe.yml (a pipe)." in err
    assert "pods/linked (a link to a folder)." in err
    assert "text.txt" not in err
    (tmp_path / "pods" / "pod.json").unlink()
    assert run(["expect", str(tmp_path / "pods"), "--kubernetes", "1.36"]) == 4
    assert "skipped: " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--kubelet-config", "--kubelet-flags", "--node", "--diff-config"])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_no_configuration(capsys, tmp_path, option, device):
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    assert run(["expect", str(tmp_path / "pod.json"), "--kubernetes", "1.36", option, device]) == 4
    assert f"the file '{device}' is a device." in capsys.readouterr().err
