"""`memqos watch`: a run at once, and one after each change of the file, starting with the failed cases."""

import os
import signal
import subprocess
import sys
import threading

import click
import pytest

from memqos.cli import main, watch
from memqos.cli.watch import watched
from memqos.errors import ExitCode


class Looks:
    """A clock at whose every sleep the file may have changed."""

    def __init__(self, *moments):
        self.moments = list(moments)

    def now(self):
        return 0.0

    def sleep(self, seconds):
        assert seconds > 0
        assert self.moments, "it waits for what never comes"
        self.moments.pop(0)()


def nothing():
    pass


def runs(*codes):
    asked, left = [], list(codes)

    def run(again):
        asked.append("failed" if again else "all")
        return left.pop(0)

    return asked, run


@pytest.fixture
def binary(tmp_path):
    file = tmp_path / "my-runc"
    file.write_text("one")
    return file


@pytest.mark.parametrize(("is_refused", "runs_made"), [(True, ["all"]), (False, ["all", "all"])])
def test_a_usage_error_that_no_change_mends_ends_it(binary, is_refused, runs_made):
    """An error about the file, which may be half written, waits for the next change."""
    asked, run = runs(ExitCode.USAGE, ExitCode.CONFORMS)
    looks = Looks(lambda: binary.write_text("two"), nothing, nothing)
    code = watched([binary], run, is_refused=lambda: is_refused, clock=looks, rounds=1)
    assert (code, asked) == (ExitCode.USAGE if is_refused else ExitCode.CONFORMS, runs_made)


def test_words_that_run_refuses_are_found_without_the_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert watch.run_rejects(["--no-such-driver=x", "--driver", "nothing"])
    assert not watch.run_rejects(["limits"])


def test_what_failed_is_run_again_and_then_everything(binary):
    asked, run = runs(ExitCode.DEVIATES, ExitCode.DEVIATES, ExitCode.CONFORMS, ExitCode.CONFORMS)
    change = iter(["three", "four!"])
    write = lambda: binary.write_text(next(change))  # noqa: E731
    looks = Looks(nothing, write, nothing, nothing, write, nothing)
    assert watched([binary], run, clock=looks, rounds=2) == ExitCode.CONFORMS
    assert asked == ["all", "failed", "failed", "all"]


def test_after_a_run_without_failures_all_cases_run_again(binary):
    asked, run = runs(ExitCode.CONFORMS, ExitCode.CONFORMS)
    assert watched([binary], run, clock=Looks(lambda: binary.write_text("other"), nothing), rounds=1) == 0
    assert asked == ["all", "all"]


def test_a_missing_or_incomplete_file_is_waited_for(binary):
    asked, run = runs(ExitCode.DEVIATES, ExitCode.DEVIATES)
    moments = [
        binary.unlink,
        nothing,
        lambda: binary.write_text("ha"),
        lambda: binary.write_text("half"),
        lambda: binary.write_text("whole!"),
        nothing,
    ]
    looks = Looks(*moments)
    watched([binary], run, clock=looks, rounds=1)
    assert looks.moments == []
    assert asked == ["all", "failed"]


def test_what_happened_during_the_run_is_a_change(binary):
    asked = []

    def run(again):
        asked.append(again)
        if len(asked) == 1:
            binary.write_text("during")
        return ExitCode.DEVIATES

    watched([binary], run, clock=Looks(nothing, nothing), rounds=1)
    assert asked == [False, True]


def test_options_go_to_the_run_as_they_are(binary, monkeypatch):
    called = []

    def once(arguments):
        called.append(list(arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "run_alone", once)
    with pytest.raises(click.Abort):
        watch.command.main(
            args=["--runtime-binary", str(binary), "-k", "memory.high", "-n", "2", "values"], standalone_mode=False
        )
    assert called == [["--runtime-binary", str(binary), "-k", "memory.high", "-n", "2", "values"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [([], "no file to watch"), (["--runtime-binary", "./none"], "'none' is not a file")],
)
def test_without_a_file_there_is_nothing_to_watch(words, says, capsys):
    assert main.run(["watch", *words]) == 4
    assert says in capsys.readouterr().err


def test_an_interrupt_reaches_the_run_once_and_ends_both(tmp_path, binary):
    package = tmp_path / "fake" / "memqos"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import signal, sys, time\n"
        "came = []\n"
        "signal.signal(signal.SIGINT, lambda *_: came.append(1))\n"
        "print('begun', flush=True)\n"
        "while not came: time.sleep(0.05)\n"
        "time.sleep(0.5)\n"
        "print('interrupts', len(came), flush=True)\n"
        "sys.exit(2)\n"
    )
    code = f"import os; os.environ['PYTHONPATH'] = {str(package.parent)!r}\nfrom memqos.cli.run import run_alone\n"
    code += "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "try:\n    run_alone(['x'])\nexcept KeyboardInterrupt:\n    print('ended')\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path
    )
    timer = threading.Timer(60, process.kill)
    timer.start()
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate()[0]
    timer.cancel()
    assert said == "interrupts 1\nended\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--runtime", "oci:{}"],
        ["--runtime=containerd+{},oci:{}"],
        ["--runtime-binary", "uxc={}", "--runtime", "oci:uxc"],
    ],
)
def test_a_runtime_given_by_path_is_watched(tmp_path, monkeypatch, words):
    program = tmp_path / "uxc"
    program.write_text("#!/bin/sh\n")
    seen = []
    monkeypatch.setattr(watch, "watched", lambda files, *_, **__: seen.extend(files) or 0)
    assert main.run(["watch", *(word.replace("{}", str(program)) for word in words)]) == 0
    assert seen == [program]
