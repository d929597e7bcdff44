"""The program itself, compiled here and with little memory: its address space is limited, so nothing can grow."""

import os
import signal
import subprocess
import zlib
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.workload.command import Anon, Command, Exit, File, Free, Hold, Read, Report, Tmpfs, Touch, arguments, line
from memqos.workload.report import Done, ErrorLine, ExitLine, Held, ReportLine, Started, StepLine, parse_report
from tests.unit.workload.limited import LIMIT, LIMITED

MI = 1 << 20


def run(memload: Path, *words: str, stdin: str = "") -> tuple[int, tuple[ReportLine, ...]]:
    done = subprocess.run(
        [*LIMITED, memload, *words], input=stdin, capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, parse_report(done.stdout, source="memload")


def do(memload: Path, *commands: Command) -> tuple[int, tuple[ReportLine, ...]]:
    return run(memload, *arguments(commands))


def test_anonymous_memory_is_used_in_steps(memload: Path) -> None:
    status, lines = do(memload, Anon(size=3 * MI), Report(), Exit(code=7))
    assert status == 7
    assert [line.bytes for line in lines if isinstance(line, StepLine)] == [MI, 2 * MI, 3 * MI]
    held = next(line for line in lines if isinstance(line, Held))
    assert (held.regions, held.bytes) == (1, 3 * MI)
    assert 3 * MI <= held.resident < 5 * MI
    assert isinstance(lines[0], Started)
    assert isinstance(lines[-1], ExitLine)


def test_threads_have_a_part_each_and_all_of_it_is_used(memload: Path) -> None:
    """Three threads, and pages that do not divide by three."""
    status, lines = do(memload, Anon(size=1 * MI, step=64 << 10, threads=3), Touch(), Report())
    steps = [line for line in lines if isinstance(line, StepLine)]
    touch = next(line for line in lines if isinstance(line, Done) and line.verb == "touch")
    assert status == 0
    assert {line.thread for line in steps} == {1, 2, 3}
    assert [line.bytes for line in steps] == sorted(line.bytes for line in steps)
    assert (touch.bytes, touch.wrong_pages) == (1 * MI, 0)


def test_more_threads_than_pages_use_the_pages_there_are(memload: Path) -> None:
    _, lines = do(memload, Anon(size=4096 * 2, threads=64), Touch())
    assert [line.bytes for line in lines if isinstance(line, Done)] == [8192, 8192]


@pytest.mark.parametrize(("compressible", "least", "most"), [(False, MI, 2 * MI), (True, 1, MI // 6)])
def test_pages_are_compressible_on_request(
    memload: Path, tmp_path: Path, compressible: bool, least: int, most: int
) -> None:
    """As zswap does it, page by page; and no page is all of one word, which would take no memory at all."""
    path = tmp_path / "f"
    do(memload, File(path=str(path), size=MI, compressible=compressible), Touch(), Exit())
    pages = [path.read_bytes()[at : at + 4096] for at in range(0, MI, 4096)]
    assert least <= sum(len(zlib.compress(page, 1)) for page in pages) <= most
    assert len({page[:8] for page in pages} | {page[-8:] for page in pages}) == 512


@pytest.mark.parametrize(
    "words",
    [
        "anon 1Mi threads=0",
        "anon 1Mi threads=65",
        "anon 1Mi threads=2/s",
        "anon 1Mi fill=zeros",
        "anon 1Mi fill=runs fill=zeros",
        "file /f 1Mi threads=2",
        "file /f 1Mi within=2",
        "anon 1Mi within=0",
        "anon 1Mi within=soon",
        "anon 1Mi within=2 threads=2",
    ],
)
def test_invalid_threads_and_fillings_are_rejected(memload: Path, words: str) -> None:
    assert run(memload, *words.split())[0] == 2


def test_the_program_stays_in_memory(memload: Path) -> None:
    """Otherwise it thrashes at its limit instead of being killed: its own text is reclaimed and read back."""
    with subprocess.Popen([memload, "hold"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        (started,) = parse_report(process.stdout.readline(), source="memload")
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
    assert isinstance(started, Started)
    locked = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmLck:"))
    # A host may let its users lock less than the program has.
    assert (started.lock_errno == 0) is (500 < locked < 4096)


def test_a_size_is_rounded_up_to_whole_pages(memload: Path) -> None:
    _, lines = do(memload, Anon(size=1), Report())
    page_size = next(line.page_size for line in lines if isinstance(line, Started))
    assert next(line.bytes for line in lines if isinstance(line, Held)) == page_size


def test_a_rate_is_kept(memload: Path) -> None:
    _, lines = do(memload, Anon(size=4096 * 4, step=4096, rate=4096 * 10))
    done = next(line for line in lines if isinstance(line, Done))
    assert done.ms >= 390


@pytest.mark.parametrize("mapped", [False, True])
def test_files_are_created_touched_and_deleted(memload: Path, tmp_path: Path, mapped: bool) -> None:
    path = tmp_path / "f"
    status, lines = do(memload, File(path=str(path), size=2 * MI, mapped=mapped), Touch(), Free(), Report())
    assert status == 0
    touch = next(line for line in lines if isinstance(line, Done) and line.verb == "touch")
    assert (touch.bytes, touch.wrong_pages) == (2 * MI, 0)
    assert next(line for line in lines if isinstance(line, Held)).bytes == 0
    assert not path.exists()


@pytest.mark.parametrize("mapped", [False, True])
def test_files_are_read_again(memload: Path, tmp_path: Path, mapped: bool) -> None:
    _, lines = do(memload, File(path=str(tmp_path / "f"), size=2 * MI, mapped=mapped), Read())
    read = next(line for line in lines if isinstance(line, Done) and line.verb == "read")
    assert (read.bytes, read.wrong_pages) == (2 * MI, 0)


def test_a_tmpfs_is_distinguished_from_another_file_system(memload: Path, tmp_path: Path) -> None:
    shm = Path("/dev/shm") / tmp_path.name / "f"
    shm.parent.mkdir()
    try:
        _, lines = do(memload, Tmpfs(path=str(shm), size=MI), Tmpfs(path="/proc/self/none", size=MI))
    finally:
        shm.unlink(missing_ok=True)
        shm.parent.rmdir()
    assert [line.bytes for line in lines if isinstance(line, Done)] == [MI]
    assert [line.command for line in lines if isinstance(line, ErrorLine)] == [2]


@pytest.mark.parametrize(("look", "writes"), [(Touch(), True), (Read(), False)])
def test_a_look_finds_foreign_writes(memload: Path, tmp_path: Path, look: Touch | Read, writes: bool) -> None:
    path, fifo, report = tmp_path / "f", tmp_path / "c", tmp_path / "r"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [
            *LIMITED,
            memload,
            *arguments([File(path=str(path), size=8192, step=8192)], commands_path=str(fifo), report_path=str(report)),
        ],
        stdout=subprocess.DEVNULL,
    ) as process:
        with fifo.open("w") as commands:
            commands.write(line(look) + line(Report()))
        wait(
            "memload reports",
            lambda: read(report),
            until=lambda lines: any(isinstance(one, Held) for one in lines),
            deadline=Deadline.after(10),
            every=0.01,
        )
        with path.open("r+b") as file:
            file.write(b"\0" * 8)
        os.utime(path, (0, 0))
        with fifo.open("w") as commands:
            commands.write(line(look) + "no such command\n" + line(Exit(code=4)))
        assert process.wait(10) == 4
    lines = read(report)
    assert [one.wrong_pages for one in lines if isinstance(one, Done) and one.verb == look.verb] == [0, 1]
    assert (path.stat().st_mtime > 0) == writes
    assert [one.what for one in lines if isinstance(one, ErrorLine)] == ["not a command"]


def read(report: Path) -> tuple[ReportLine, ...]:
    return parse_report(report.read_text() if report.exists() else "", source=str(report), live=True)


def test_a_refused_mapping_is_reported_and_the_rest_goes_on(memload: Path) -> None:
    status, lines = do(memload, Anon(size=MI), Anon(size=LIMIT * 2), Report(), Exit())
    assert status == 0
    assert [(line.what, line.errno) for line in lines if isinstance(line, ErrorLine)] == [("mmap", 12)]
    assert next(line.bytes for line in lines if isinstance(line, Held)) == MI


def test_a_region_that_could_not_be_had_keeps_its_number(memload: Path) -> None:
    _, lines = do(memload, Anon(size=LIMIT * 2), Anon(size=MI), Free(region=2), Free(region=1), Report())
    assert [line.what for line in lines if isinstance(line, ErrorLine)] == ["mmap", "no such region"]
    assert next(line.bytes for line in lines if isinstance(line, Held)) == 0


def test_commands_are_also_read_from_standard_input(memload: Path) -> None:
    status, lines = run(memload, stdin=f"{line(Anon(size=4096))}\n{line(Exit(code=3))}")
    assert status == 3
    assert sum(isinstance(one, Done) for one in lines) == 1


@pytest.mark.parametrize(
    "words",
    [
        "anon",
        "anon 0",
        "anon -1",
        "anon 1Ti",
        "anon 1M",
        "anon 99999999999999999999",
        "anon 9223372036854775807Gi",
        "anon 1 step=0",
        "anon 1 how=mmap",
        "anon 1 colour=red",
        "file /x",
        "file /x 1 how=magic",
        "touch 0",
        "free x",
        "free 1.5",
        "hold x",
        "hold -1",
        "exit",
        "exit 256",
        "exit 1 2",
        "report 1",
        "dance",
        "anon 4096 , dance",
        "anon 4096 , , hold",
    ],
)
def test_wrong_arguments_end_it_before_anything_runs(memload: Path, words: str) -> None:
    assert run(memload, *words.split()) == (2, ())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_exits_at_once_on_command(memload: Path, number: signal.Signals, status: int) -> None:
    with subprocess.Popen([*LIMITED, memload, *arguments([Hold()])], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(5) == status


def test_it_continues_without_a_reader_of_its_report(memload: Path) -> None:
    with subprocess.Popen(
        [*LIMITED, memload, *arguments([Hold(seconds=0.2), Anon(size=4096), Exit(code=9)])],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(10) == 9


def test_sleep_is_reported_separately_from_run_time(memload: Path) -> None:
    """A second of pauses between two steps, and then 3 MiB as fast as it goes."""
    _, lines = do(memload, Anon(size=2 * MI, rate=1 * MI), Anon(size=3 * MI))
    paced, quick = [line for line in lines if isinstance(line, Done)]

    assert paced.slept_ms is not None
    assert quick.slept_ms is not None
    assert 800 <= paced.slept_ms <= paced.ms
    assert quick.slept_ms - paced.slept_ms < 400


def test_waiting_for_a_cpu_is_not_sleep(memload: Path) -> None:
    """Three others want the one CPU that it may use."""
    one_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    others = [subprocess.Popen([*one_cpu, "sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        words = arguments([Anon(size=48 * MI)])
        ran = subprocess.run(
            [*LIMITED, *one_cpu, memload, *words], capture_output=True, text=True, timeout=60, check=True
        )
    finally:
        for other in others:
            other.kill()
            other.wait()
    [done] = [line for line in parse_report(ran.stdout, source="memload") if isinstance(line, Done)]

    assert done.slept_ms is not None
    assert done.slept_ms < done.ms / 4


def test_what_is_wanted_within_a_time_ends_with_it(memload: Path) -> None:
    """At 1 MiB/s it has two of four when it reads the clock again, and those are all that it holds."""
    status, lines = do(memload, Anon(size=4 * MI, rate=1 * MI, within=1.5), Report(), Anon(size=2 * MI, within=9))
    cut, whole = [line for line in lines if isinstance(line, Done)]
    [held] = [line for line in lines if isinstance(line, Held)]

    assert status == 0
    assert (cut.bytes, whole.bytes) == (2 * MI, 2 * MI)
    assert held.bytes == 2 * MI
    assert 1500 <= cut.ms < 4000


def test_it_goes_on_as_a_copy_of_its_own(memload: Path, tmp_path: Path) -> None:
    """So that its text is charged to its own cgroup."""
    copy = tmp_path / "own"
    status, (started, *_) = run(memload, "--own-text", str(copy), "anon", "64Ki", "needs=text", ",", "exit", "7")
    assert status == 7
    assert isinstance(started, Started)
    assert copy.read_bytes() == memload.read_bytes()
    # An existing copy is replaced: it may be of another program.
    assert run(memload, "--own-text", str(copy), "exit", "3")[0] == 3


def test_a_copy_that_cannot_be_created_ends_it(memload: Path, tmp_path: Path) -> None:
    assert run(memload, "--own-text", str(tmp_path / "none" / "own"), "exit", "0")[0] == 2


def test_only_anonymous_memory_needs_text(memload: Path) -> None:
    assert run(memload, "file", "/f", "1Mi", "needs=text")[0] == 2
    status, lines = do(memload, Anon(size=MI, needs_text=True))
    assert (status, next(line.bytes for line in lines if isinstance(line, Done))) == (0, MI)


def test_what_needs_text_locks_it_no_more(memload: Path) -> None:
    words = [memload, "anon", "4Ki", "needs=text", ",", "hold"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while '"hold"' not in process.stdout.readline():
            pass
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
    assert "VmLck:\t       0 kB" in status
