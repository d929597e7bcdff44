from typing import Any

import pytest

from memqos.workload.command import (
    Anon,
    Command,
    Exit,
    File,
    Free,
    Hold,
    Read,
    Report,
    Tmpfs,
    Touch,
    allocated,
    arguments,
    line,
    threads_of,
)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Anon(size=4096), "anon 4096 step=1048576"),
        (Anon(size=1, step=4096, rate=1 << 20), "anon 1 step=4096 rate=1048576/s"),
        (Anon(size=1, step=1, compressible=True, threads=4), "anon 1 step=1 fill=runs threads=4"),
        (Anon(size=1, step=1, within=2.5), "anon 1 step=1 within=2.5"),
        (File(path="/f", size=2, step=1), "file /f 2 step=1 how=write"),
        (Tmpfs(path="/dev/shm/f", size=2, step=1, mapped=True), "tmpfs /dev/shm/f 2 step=1 how=mmap"),
        (Touch(), "touch all"),
        (Touch(region=2), "touch 2"),
        (Read(), "read all"),
        (Read(region=1), "read 1"),
        (Free(region=1), "free 1"),
        (Hold(), "hold"),
        (Hold(seconds=0), "hold 0"),
        (Hold(seconds=2.5), "hold 2.5"),
        (Report(), "report"),
        (Exit(code=255), "exit 255"),
    ],
)
def test_the_words_of_a_command(command: Command, text: str) -> None:
    assert " ".join(command.words()) == text
    assert line(command) == text + "\n"


def test_arguments_of_several_commands_with_a_fifo_and_a_report() -> None:
    words = arguments([Anon(size=4096, step=4096), Hold()], commands_path="/m/c", report_path="/m/r")
    assert words == ("--commands", "/m/c", "--report", "/m/r", "anon", "4096", "step=4096", ",", "hold")
    assert arguments([]) == ()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Anon, {"size": 0}),
        (Anon, {"size": -1}),
        (Anon, {"size": 1, "step": 0}),
        (Anon, {"size": 1, "rate": 0}),
        (Anon, {"size": 1, "threads": 0}),
        (Anon, {"size": 1, "threads": 65}),
        (Anon, {"size": 1, "within": 0}),
        (Anon, {"size": 1, "within": 1, "threads": 2}),
        (Touch, {"region": 0}),
        (Read, {"region": 0}),
        (Exit, {"code": 256}),
        (Exit, {"code": -1}),
    ],
)
def test_values_that_memload_would_reject_cannot_be_created(kind: type[Any], fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="got"):
        kind(**fields)


@pytest.mark.parametrize("path", ["", "/a b", "/a\n", " /a"])
def test_a_path_that_a_line_cannot_say(path: str) -> None:
    with pytest.raises(ValueError, match="white space"):
        File(path=path, size=1).words()


@pytest.mark.parametrize(
    ("words", "threads"),
    [
        ("", 1),
        ("anon 1Mi , hold", 1),
        ("--commands /c anon 1Mi threads=3 , anon 1Mi threads=2", 3),
        ("anon 1Mi threads=two , file /threads=7 1Mi , anon 1Mi threads=", 1),
    ],
)
def test_the_most_threads_of_any_command(words: str, threads: int) -> None:
    assert threads_of(words.split()) == threads


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("", 0),
        ("hold", 0),
        ("anon 48Mi", 48 << 20),
        ("--report /r file /cache 24Mi step=1Mi , read all , hold", 24 << 20),
        ("anon 1Mi rate=8Mi/s , tmpfs /volume/data 4096 , touch 1 , hold 3s", (1 << 20) + 4096),
    ],
)
def test_a_programs_size_is_the_sum_of_its_commands(words, count):
    assert allocated(words.split()) == count
