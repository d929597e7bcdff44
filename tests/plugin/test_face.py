"""The display of a run of suites: its output in a log and on a terminal, from the first line to the last."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios

import pyte
import pytest

from memqos.report import outcome

pytest_plugins = ["pytester"]

BODY = """
import time
from memqos.engine.plan import Reason

RULE = Reason(rule="memory.high is the limit", revision="memory-qos v1.22", source="KEP-2570")

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(6))
def test_it(qos_evidence, number):
    print("\\x1b[31mnoise of a test")
    if number == 4:
        pytest.skip("the kernel has no such file")
    pod = Subject.of_container("app", f"default/web{number}")
    qos_evidence.settle(finding("deviates" if number in {1, 2} else "conforms", subject=pod, reason=RULE))
"""

LOG = """\
memqos VERSION: machine trixie/two-numa-nodes, containerd+runc, systemd driver
memqos settings: results=out (--memqos-results)
6 cases in 1 chapter on trixie/two-numa-nodes; its duration is not known yet
memory.high of container app of pod default/web1 deviates
  expected 4096, observed max
  because memory.high is the limit (memory-qos v1.22)
demo: 3 conform, 2 deviate, 1 not observable, in TIME
verdict: deviates (5 cases observed, 2 deviate; 5 findings about the runtime under test, 2 deviate)

chapter  conforms  deviates  not observable  seconds
demo            3         2               1      N.N
all             3         2               1      N.N

findings, by writer     conforms  deviates     known  not observable
the runtime under test         3         2         0               0

deviations:
  memory.high of container app of pod default/web1 is max, expected 4096
    cgroup   /kubepods/pod1/app
    set by   the runtime under test
    memory.high is the limit
      source   memory-qos v1.22; KEP-2570
    look     cat /sys/fs/cgroup/kubepods/pod1/app/memory.high
    alike    2 findings in 2 cases: test_it[1], test_it[2]
    case     demo/test_demo.py::test_it[1]
    rerun: memqos run 'demo/test_demo.py::test_it[1]'

not observable:
  demo/test_demo.py::test_it[4]: the kernel has no such file

results: out
report: out/report.html
verdict: deviates (5 cases observed, 2 deviate; 5 findings about the runtime under test, 2 deviate)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITLAB_CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def steady(text):
    """Without the parts that differ from run to run."""
    text = re.sub(r"memqos \d\S*:", "memqos VERSION:", text)
    text = re.sub(r" in \d+ s$", " in TIME", text, flags=re.M)
    return re.sub(r" +\d+\.\d$", "      N.N", text, flags=re.M)


def test_the_log_equals_its_golden_without_pytests_own_lines(suite, run):
    suite(BODY)
    result = run()
    assert steady(result.stdout.str() + "\n").strip() == LOG.strip()
    assert result.stderr.str() == ""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_if_pytest_cannot_be_silenced_it_shows_the_run_and_a_note_says_so(suite, run, monkeypatch, options):
    monkeypatch.delattr(pytest.Config, "get_terminal_writer")
    suite(BODY)
    result = run(*options)
    said = result.stdout.str()
    assert result.ret == 1
    [told] = [line for line in result.outlines if "get_terminal_writer" in line]
    assert told.startswith(f"· pytest {pytest.__version__} lacks Config.get_terminal_writer, which pytest 8.0 to ")
    assert told.endswith(" has: pytest's own reporter shows this run")
    assert "test session starts" in said
    assert "Traceback" not in said
    assert "verdict: deviates (5 cases observed, 2 deviate;" in said
    assert result.stderr.str() == ""


def test_durations_of_other_systems_are_marked_as_an_estimate(suite, run, tmp_path):
    times = {f"demo/test_demo.py::test_it[{number}-bookworm-cgroupfs]": 30.0 for number in range(6)}
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))
    suite(BODY)
    assert run().outlines[2] == (
        "6 cases in 1 chapter on trixie/two-numa-nodes; "
        "about 3 min, estimated from other systems: none of them ran on this one before"
    )


def test_the_verdict_alone(suite, run):
    suite(BODY)
    [line] = run("-qq").outlines
    assert line.startswith("verdict: deviates (5 cases observed")


def test_a_line_a_case(suite, run):
    suite(BODY)
    lines = run("-v").outlines
    assert [line for line in lines if line.startswith("· ")] == [
        "· conforms  demo/test_demo.py::test_it[0]",
        "· deviates  demo/test_demo.py::test_it[1]",
        "· deviates  demo/test_demo.py::test_it[2]",
        "· conforms  demo/test_demo.py::test_it[3]",
        "· not observable  demo/test_demo.py::test_it[4]: the kernel has no such file",
        "· conforms  demo/test_demo.py::test_it[5]",
    ]


def test_workers_print_the_same(suite, run):
    suite(BODY)
    said = steady(run("-n", "2").stdout.str())
    assert re.search(r"^memqos: \d machines? at a time", said, flags=re.M)
    end = LOG[LOG.index("verdict:") : LOG.index("deviations:")]
    assert end in said
    assert not re.search(r"gw\d|scheduling|bringing up|created:", said)


def test_githubs_log_has_groups_and_an_error_at_the_claim(suite, run, monkeypatch, pytester):
    suite(BODY)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    lines = [line for line in run().outlines if line.startswith("::")]
    told = "title=memory.high of container app of pod default/web1 deviates::expected 4096, observed max"
    told += "%0Abecause memory.high is the limit (memory-qos v1.22)"
    claims = (pytester.path / "suites/demo/claims.toml").read_text().splitlines()
    assert lines == [
        "::group::demo (6 cases)",
        f"::error file=suites/demo/claims.toml,line={claims.index('[one]') + 1},{told}",
        "::endgroup::",
    ]


def test_gitlabs_log_has_sections(suite, run, monkeypatch):
    suite(BODY)
    monkeypatch.setenv("GITLAB_CI", "true")
    said = run().stdout.str()
    # The carriage return in the middle ends a line for the parser here.
    assert re.search(r"\x1b\[0Ksection_start:\d+:demo\[collapsed=true\]\n\x1b\[0Kdemo \(6 cases\)", said)
    assert re.search(r"\x1b\[0Ksection_end:\d+:demo\n\x1b\[0K", said)


def test_a_file_that_cannot_be_collected_is_reported(suite, run):
    suite("import nothing_of_that_name")
    result = run()
    result.stdout.fnmatch_lines(["demo/test_demo.py:", "*nothing_of_that_name*", "verdict: usage error*"])


def test_requested_pytest_output_is_shown(suite, run):
    suite(BODY)
    run("--durations=2", "-vv").stdout.fnmatch_lines(["*slowest 2 durations*", "verdict: deviates*"])


def test_listing_is_pytests(suite, pytester, monkeypatch):
    suite(BODY)
    listed = pytester.runpytest_subprocess("suites", "--collect-only", "-q")
    listed.stdout.fnmatch_lines(["demo/test_demo.py::test_it?0?"])


def test_the_next_run_has_a_duration_estimate(suite, run, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    times = {f"demo/test_demo.py::test_it[{number}]": 100.0 for number in range(5)}
    (cache / "durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))
    suite(BODY)
    run().stdout.fnmatch_lines(["6 cases in 1 chapter on trixie/two-numa-nodes; about 10 min; 1 never ran here before"])


def test_a_case_over_three_times_its_median_is_listed_with_its_waits(suite, run, pytester, tmp_path, monkeypatch):
    monkeypatch.setattr(outcome, "NOTABLE_SECONDS", 0.0)
    (tmp_path / "cache").mkdir()
    times = {"demo/test_demo.py::test_slow": 0.001, "demo/test_demo.py::test_quick": 1000.0}
    (tmp_path / "cache/durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))
    suite("""
from memqos.clock import Deadline, wait

@pytest.mark.claim("demo/one")
def test_slow(qos_evidence):
    deadline = Deadline.after(60)
    wait("the bell rings", lambda: deadline.elapsed > 0.6, deadline=deadline)
    qos_evidence.settle(finding("conforms"))

@pytest.mark.claim("demo/one")
def test_quick(qos_evidence):
    qos_evidence.settle(finding("conforms"))
""")
    run().stdout.fnmatch_lines([
        "overdue: three times the median of the last runs on this host:",
        "* s    0.0 s before  demo/test_demo.py::test_slow",
        "* s until the bell rings",
    ])  # fmt: skip
    results = json.loads((pytester.path / "out/bundle.json").read_text())["results"]
    [slow, quick] = [one.get("waits") for one in results]
    assert [one["condition"] for one in slow] == ["the bell rings"]
    assert slow[0]["seconds"] > 0.6
    assert quick is None


class Run:
    """A run on a pseudo-terminal, and the screen of an emulator."""

    def __init__(self, arguments, folder, *, columns, lines=30, **environment):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.chdir(folder)
            environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", **environment}
            words = [sys.executable, "-m", "pytest", "suites", "--memqos-results=out", *arguments]
            os.execve(sys.executable, words, environment)  # noqa: S606

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def read_until(self, found):
        """Read output until that is true; False at the end of everything."""
        while not found(self):
            try:
                text = os.read(self.handle, 1 << 16)
            except OSError:
                return False
            if not text:
                return False
            self.raw += text
            self.stream.feed(text)
        return True

    def end(self):
        self.read_until(lambda _: False)
        os.close(self.handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


WAITS = BODY.replace("    if number == 4:", "    if number == 3:\n        time.sleep(60)\n    if number == 4:")


def gone_for_a_case(one):
    return any("3/6" in line for line in one.lines)


@pytest.mark.parametrize("columns", [80, 40])
def test_rows_on_a_terminal(suite, pytester, columns):
    suite(WAITS)
    one = Run([], pytester.path, columns=columns)
    assert one.read_until(gone_for_a_case)
    row = next(line for line in one.lines if "3/6" in line)
    wide = "demo ━━━━━━━━━━────────── 3/6 1 conforms 2 deviate"
    assert row == {80: wide, 40: "demo 3/6 1+ 2x"}[columns]
    assert any(re.fullmatch(r"\d+ s test_it\[3\]", line) for line in one.lines)
    assert any(line.startswith("memory.high of container app of pod") for line in one.lines)
    assert "noise" not in "".join(one.lines)

    os.kill(one.pid, signal.SIGINT)
    assert one.end() == 1
    assert not one.screen.cursor.hidden
    assert not any("3/6" in line for line in one.lines)
    assert "verdict: deviates" in " ".join(one.lines)
    assert "Traceback" not in one.raw.decode()


def test_a_dumb_terminal_gets_lines(suite, pytester):
    suite(BODY)
    one = Run([], pytester.path, columns=80, TERM="dumb")
    assert one.end() == 1
    assert b"\x1b" not in one.raw
    assert b"demo: 3 conform, 2 deviate, 1 not observable" in one.raw


def test_no_color_keeps_cursor_moves_without_colours(suite, pytester):
    suite(BODY)
    one = Run([], pytester.path, columns=80, NO_COLOR="1")
    assert one.end() == 1
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7][;m]", one.raw)


def test_with_workers_a_row_each(suite, pytester):
    suite(WAITS)
    one = Run(["-n", "2"], pytester.path, columns=80)
    # They share one machine, so that one worker has them all.
    assert one.read_until(lambda one: any(re.match(r"gw\d 1 conforms 2 deviate ", line) for line in one.lines))
    assert any(line.startswith("all ━") for line in one.lines)
    os.kill(one.pid, signal.SIGINT)
    one.end()
    assert not one.screen.cursor.hidden
