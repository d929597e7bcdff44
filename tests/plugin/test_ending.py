"""However a run ends: its exit code gives the reason, its bundle agrees, and 1 is never accidental."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import pytest

pytest_plugins = ["pytester"]

CONFORMS = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(3))
def test_it(qos_evidence, number):
    qos_evidence.settle(finding("conforms"))
"""

DEVIATES = """
@pytest.mark.claim("demo/one")
def test_deviates(qos_evidence):
    qos_evidence.settle(finding("deviates"))
"""

# The second case records that it has begun, and waits until it is interrupted.
WAITS = """
import time
from pathlib import Path

@pytest.fixture(scope="module")
def machine():
    yield
    Path("tearing-down").touch()
    time.sleep(float(Path("teardown").read_text()) if Path("teardown").exists() else 0)
    Path("torn-down").touch()

@pytest.mark.claim("demo/one")
@pytest.mark.xdist_group("same")
@pytest.mark.parametrize("number", range(3))
def test_it(machine, qos_evidence, number):
    if number == 1:
        Path("begun").touch()
        time.sleep(60)
    qos_evidence.settle(finding("conforms"))
"""

COMMANDS = {
    "pytest": ["-m", "pytest", "suites", "--memqos-results=out"],
    "xdist": ["-m", "pytest", "suites", "--memqos-results=out", "-n", "1"],
    "memqos": ["-m", "memqos", "run", "suites", "--results", "out"],
}
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def run(run_apart):
    """How a process ends, seen from outside."""
    return run_apart


@pytest.fixture
def start(pytester):
    """Start a command in the folder of the suites; it ends with the test."""
    started = []

    def go(command, *words, **options):
        process = subprocess.Popen(
            [sys.executable, *COMMANDS[command], *words],
            cwd=pytester.path,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
        )
        started.append(process)
        return process

    yield go
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def appears(path):
    """Wait for a file, and a moment more: its writer is then in its wait, not inside Python itself."""
    for _ in range(600):
        if path.exists():
            time.sleep(0.5)
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def bundle(pytester, folder="out"):
    return json.loads((pytester.path / folder / "bundle.json").read_text())


def junit_errors(pytester):
    return [case.find("error") for case in ET.parse(pytester.path / "out/junit_01.xml").iter("testcase")]  # noqa: S314


# One handler serves all signals, and each command gets there differently.
@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("memqos", signal.SIGINT),
        ("memqos", signal.SIGTERM),
        ("memqos", signal.SIGHUP),
        ("pytest", signal.SIGTERM),
        ("xdist", signal.SIGINT),
        ("xdist", signal.SIGTERM),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_signal_is_an_interrupt_that_leaves_bundle_and_junit(suite, start, pytester, command, number):
    suite(WAITS)
    process = start(command)
    appears(pytester.path / "begun")

    process.send_signal(number)

    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    written = bundle(pytester)
    assert (written["exit_code"], written["interrupted"]) == (2, True)
    assert [result["outcome"] for result in written["results"]] == ["conforms"]
    assert written["counts"]["not_run"] == 2
    assert (pytester.path / "out/junit_01.xml").exists()
    assert "verdict: interrupted" in out
    assert "Traceback" not in out + err


def test_a_signal_to_all_processes_of_a_run_is_one_interrupt(suite, start, pytester):
    suite(WAITS)
    process = start("xdist", start_new_session=True)
    appears(pytester.path / "begun")

    os.killpg(process.pid, signal.SIGTERM)

    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    assert bundle(pytester)["exit_code"] == 2
    assert (pytester.path / "torn-down").exists()


@pytest.mark.parametrize("command", ["pytest", "memqos"])
def test_a_second_interrupt_stops_tidying_and_the_bundle_has_the_exit_code(suite, start, pytester, command):
    suite(WAITS)
    (pytester.path / "teardown").write_text("60")
    process = start(command)
    appears(pytester.path / "begun")

    process.send_signal(signal.SIGINT)
    appears(pytester.path / "tearing-down")
    process.send_signal(signal.SIGINT)

    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    assert not (pytester.path / "torn-down").exists()
    assert (bundle(pytester)["exit_code"], bundle(pytester)["interrupted"]) == (2, True)
    assert "verdict: interrupted" in out


# What the first case does with a signal during this.
SWALLOWED = {
    "in a finalizer": """
class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(100))

def swallow():
    Late()
""",
    "in a callback": """
class Thing:
    pass

def swallow():
    thing = Thing()
    weakref.finalize(thing, os.kill, os.getpid(), signal.SIGTERM)
    del thing
""",
    "by a library": """
def swallow():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(100))
    except BaseException:
        pass
""",
    "as the cause of something else": """
kept = []

def swallow():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        sum(range(100))
    except BaseException as error:
        kept.append(error)
""",
}
ON = """
import os, signal, time, weakref
from pathlib import Path

@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(3))
def test_it(qos_evidence, number):
    swallow()
    time.sleep(SECONDS)
    qos_evidence.settle(finding("conforms"))
"""


@pytest.mark.parametrize(
    ("how", "arguments"),
    [("in a finalizer", ()), ("in a callback", ()), ("by a library", ()), ("by a library", ("-n", "1"))],
    ids=["in a finalizer", "in a callback", "by a library", "by a library, xdist"],
)
def test_a_signal_that_was_swallowed_is_raised_again(suite, start, pytester, how, arguments):
    suite(ON.replace("SECONDS", "60") + SWALLOWED[how])
    process = start("pytest", *arguments)

    out, err = process.communicate(timeout=50)

    assert process.returncode == 2, out + err
    assert bundle(pytester)["counts"]["not_run"] == 3
    assert "Exception ignored" not in out + err


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
@pytest.mark.parametrize("how", SWALLOWED)
def test_after_a_signal_no_further_case_is_begun_whatever_became_of_it(suite, run, pytester, how, arguments):
    suite(ON.replace("SECONDS", "0") + SWALLOWED[how])

    result = run(*arguments)

    assert result.ret == 2
    assert bundle(pytester)["interrupted"]
    assert len(bundle(pytester)["results"]) == 1
    assert bundle(pytester)["counts"]["not_run"] == 2


def test_an_interrupt_during_the_report_of_the_first_is_in_the_bundle_too(suite, run, pytester):
    suite(CONFORMS)
    (pytester.path / "suites/conftest.py").write_text(
        "import os, pytest, signal\n"
        "def pytest_runtest_setup(item):\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_keyboard_interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n"
    )

    assert run().ret == 2
    assert (bundle(pytester)["exit_code"], bundle(pytester)["interrupted"]) == (2, True)


def test_an_ignored_signal_stays_ignored(suite, start, pytester):
    suite(WAITS.replace("time.sleep(60)", "time.sleep(2)"))
    process = start("pytest", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    appears(pytester.path / "begun")

    process.send_signal(signal.SIGHUP)

    process.communicate(timeout=60)
    assert process.returncode == 0


def test_other_peoples_tests_are_ended_by_a_signal_as_ever(pytester):
    pytester.makepyfile("import os, signal\ndef test_it():\n    os.kill(os.getpid(), signal.SIGTERM)\n")

    assert pytester.runpytest_subprocess().ret == -signal.SIGTERM


@pytest.mark.parametrize("number", [0, 2], ids=["input", "error"])
def test_a_process_without_a_standard_stream_runs(suite, pytester, number):
    suite(CONFORMS)
    command = " ".join(["exec", sys.executable, *COMMANDS["memqos"], f"{number}>&-"])
    done = subprocess.run(["sh", "-c", command], cwd=pytester.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert bundle(pytester)["exit_code"] == 0


def test_a_removed_working_folder_is_a_usage_error(tmp_path):
    (tmp_path / "gone").mkdir()
    command = f"cd gone; rmdir ../gone; exec {sys.executable} -m memqos run"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "memqos: error: the current folder does not exist any more." in done.stderr


def test_leftover_temporary_files_count_as_results_of_memqos(suite, run, pytester):
    suite(CONFORMS)
    (pytester.path / "out").mkdir()
    (pytester.path / "out/.bundle.json.new").touch()
    assert run().ret == 0


def test_a_folder_name_that_is_not_utf8_takes_results(suite, pytester):
    suite(CONFORMS)
    command = [os.fsencode(sys.executable), b"-m", b"memqos", b"run", b"suites", b"--results", b"caf\xe9"]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = os.fsencode(pytester.path) + b"/caf\xe9/bundle.json"
    with open(found, encoding="utf-8") as file:  # noqa: PTH123 - its path is no text
        assert json.load(file)["exit_code"] == 0


@each_command
def test_a_full_standard_output_device_is_an_environment_error(suite, start, pytester, command):
    suite(CONFORMS)
    with open("/dev/full", "w") as full:  # noqa: PTH123 - it is a stream for a process
        process = start(command, stdout=full)
        _, err = process.communicate(timeout=60)

    assert process.returncode == 6
    assert "standard output: No space left on device." in err
    assert "Traceback" not in err
    assert bundle(pytester)["exit_code"] == 6


@pytest.mark.parametrize(
    ("most", "says"),
    [(0, "error: No usable temporary directory found in "), (100, "out/run.json: File too large.")],
)
def test_a_limit_on_the_size_of_files_is_the_hosts_matter(suite, start, most, says):
    """A limit of zero: `ulimit -f 0`."""
    suite(CONFORMS)
    process = start("memqos", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    _, err = process.communicate(timeout=60)

    assert process.returncode == 6
    assert says in err
    assert "Raise the limit on the size of files (ulimit -f), and call again." in err
    assert "Traceback" not in err


@each_command
def test_a_pipe_that_closes_ends_quietly_with_the_status_of_sigpipe(suite, start, pytester, command):
    suite(WAITS)
    process = start(command)
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None

    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141
    assert bundle(pytester)["exit_code"] == 141


@pytest.mark.parametrize("command", ["pytest", "memqos"])
def test_a_verdict_to_a_closed_output_is_neither_success_nor_deviation(suite, start, pytester, command):
    suite(CONFORMS)
    (pytester.path / "suites/conftest.py").write_text(
        "import time\ndef pytest_sessionfinish():\n    open('done', 'w').close()\n    time.sleep(2)\n"
    )
    process = start(command)
    appears(pytester.path / "done")
    process.stdout.close()
    process.stdout = None

    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141
    assert bundle(pytester)["exit_code"] == 141


def test_a_deviation_exits_with_1_despite_a_closed_output(suite, start, pytester):
    suite(DEVIATES)
    process = start("pytest")
    process.stdout.close()
    process.stdout = None

    process.communicate(timeout=60)
    # pytest may notice before the first case, or after it.
    assert process.returncode in {1, 141}
    assert bundle(pytester)["exit_code"] == process.returncode


@pytest.mark.parametrize(
    "hook",
    [
        "pytest_runtest_logstart(nodeid)",
        "pytest_runtest_logfinish(nodeid)",
        "pytest_sessionfinish()",
        "pytest_terminal_summary()",
        "pytest_collection_finish()",
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_an_unexpected_error_is_3_in_one_line_with_a_crash_file(suite, run, pytester, hook, arguments):
    suite(CONFORMS)
    (pytester.path / "suites/conftest.py").write_text(f"def {hook}:\n    raise KeyError('out of the blue')\n")

    result = run(*arguments)

    assert result.ret == 3
    said = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    assert "KeyError: 'out of the blue'" in said
    assert "out of the blue" in (pytester.path / "out/crash.txt").read_text()
    assert "out/crash.txt" in said
    assert bundle(pytester)["exit_code"] == 3
    assert "verdict: machinery failed" in said
    assert any(error is not None for error in junit_errors(pytester))


def test_with_full_trace_pytest_shows_its_traceback(suite, run, pytester):
    suite(CONFORMS)
    (pytester.path / "suites/conftest.py").write_text("def pytest_runtest_logstart():\n    raise KeyError('blue')\n")

    result = run("--full-trace")

    assert result.ret == 3
    result.stdout.fnmatch_lines(["INTERNALERROR> E *KeyError: 'blue'"])
    assert bundle(pytester)["exit_code"] == 3


def test_a_deviation_before_an_internal_error_decides(suite, run, pytester):
    suite(DEVIATES)
    (pytester.path / "suites/conftest.py").write_text("def pytest_runtest_logfinish():\n    raise KeyError('blue')\n")

    assert run().ret == 1
    assert bundle(pytester)["exit_code"] == 1


@pytest.mark.parametrize("code", [0, 1, 7])
def test_an_exit_with_any_code_is_an_interruption(suite, run, pytester, code):
    suite(CONFORMS)
    (pytester.path / "suites/conftest.py").write_text(
        f"import pytest\ndef pytest_runtest_logfinish():\n    pytest.exit('enough', {code})\n"
    )

    result = run()

    assert (result.ret, bundle(pytester)["exit_code"]) == (2, 2)


def test_a_crashed_worker_is_reported_in_plain_words(suite, run, pytester):
    suite('import os\n@pytest.mark.claim("demo/one")\ndef test_it(qos_evidence):\n    os._exit(9)\n')

    result = run("-n", "1")

    assert result.ret == 3
    assert "\\x0a" not in result.stdout.str()
    assert "\n" not in bundle(pytester)["results"][0]["reason"]
