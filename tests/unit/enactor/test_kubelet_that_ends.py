"""Kubelets that end by themselves, and their last words."""

import io
import json
import signal
import time
from pathlib import Path

import pytest

from memqos.enactor.kubelet.supervisor import Supervisor, serve
from memqos.errors import MachineryError
from tests.unit.enactor.kubelets import WEB, enactor_on, order_of, wrong_files
from tests.unit.node.fakes import Bench


def test_a_kubelet_that_exits_at_start_is_reported_with_its_logs_errors():
    bench = Bench()
    log = "I1129 12:00:00.0 1 server.go:1] hello\nE1129 12:00:01.0 1 run.go:72] command failed: no such policy\n"
    with (
        enactor_on(bench, dies=log) as enactor,
        pytest.raises(MachineryError, match=r"ended with status 1: E1129 .*no such policy"),
    ):
        enactor.begin("test").bring(order_of(bench))


def test_what_a_kubelet_repeats_until_it_is_registered_does_not_hide_its_error():
    bench = Bench()
    repeated = 'E1129 12:00:02.0 1 kubelet.go:1] "Unable to register mirror pod because node is not registered yet"\n'
    with (
        enactor_on(bench, dies="E1129 12:00:01.0 1 run.go:72] no route\n" + 20 * repeated) as enactor,
        pytest.raises(MachineryError, match="no route") as raised,
    ):
        enactor.begin("test").bring(order_of(bench))
    assert "mirror" not in raised.value.what


PANIC = """\
E1129 12:00:01.0 1 pod_workers.go:1] "Error syncing pod, skipping"
panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x2b1c5f0]

goroutine 291 [running]:
k8s.io/kubernetes/pkg/kubelet/cm.(*qosContainerManagerImpl).setMemoryQoS(0x0)
"""


def test_a_panic_is_shown_and_not_the_errors_before_it():
    bench = Bench()
    with (
        enactor_on(bench, dies=PANIC + 40 * "\tpkg/kubelet/cm/qos_container_manager_linux.go:1\n") as enactor,
        pytest.raises(
            MachineryError, match=r"status 1: panic: runtime error: invalid .*\n.*\n.*\n.*setMemoryQoS"
        ) as raised,
    ):
        enactor.begin("test").bring(order_of(bench))
    assert "Error syncing" not in raised.value.what


@pytest.mark.parametrize(
    "fatal",
    ["panic: boom", "fatal error: concurrent map writes", "F1129 12:00:01.0 1 server.go:9] no such gate"],
)
def test_traces_of_all_goroutines_do_not_push_a_fatal_message_out(tmp_path, fatal):
    log = tmp_path / "kubelet.log"
    log.write_text(f"I1129 1 hello\n{fatal}\n" + 9000 * "goroutine 1 [select]:\n")
    answers = io.StringIO()
    serve(['{"do": "log"}\n'], answers, lambda server: Supervisor(server, str(log)))
    _, asked = map(json.loads, answers.getvalue().splitlines())
    assert asked["log"].startswith(f"{fatal}\ngoroutine 1")
    assert asked["log"].endswith("goroutine 1 [select]:\n")
    assert len(asked["log"]) == 4096 + 1 + 16384


@pytest.mark.parametrize("then", ["clear", "bring"])
def test_a_kubelet_that_ends_after_its_pods_were_admitted_is_reported_once(then):
    """Values that no kubelet repairs are no evidence if the kubelet is dead."""
    bench = Bench()
    order, started = order_of(bench), []
    with enactor_on(bench, started=started) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        pods.admit(order, appears=lambda _: None)
        started[0].terminate()
        started[0].returncode = 2
        with pytest.raises(MachineryError, match="the kubelet ended with status 2"):
            pods.clear() if then == "clear" else pods.bring(order)
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
        assert not wrong_files(bench, order, admitted)
        assert len(started) == 2
        pods.clear()


def test_a_script_s_kubelet_ends_with_the_script(tmp_path):
    """The script does not pass SIGTERM on."""
    log, pids = tmp_path / "kubelet.log", tmp_path / "pids"
    script = f"sleep 300 & echo $! > {pids}; wait; echo unreachable"
    orders = [json.dumps({"do": "start", "argv": ["sh", "-c", script]}), '{"do": "state"}', '{"do": "stop"}']

    def given():
        yield orders[0]
        while not (pids.exists() and pids.read_text().strip()):
            time.sleep(0.01)
        yield from orders[1:]

    answers = io.StringIO()
    serve(given(), answers, lambda server: Supervisor(server, str(log)))
    _, _, state, stopped = map(json.loads, answers.getvalue().splitlines())
    assert state == {"runs": True, "status": None}
    assert stopped["status"] == -signal.SIGTERM
    assert not is_running(int(pids.read_text()))


def is_running(pid):
    """Whether the process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_kubelet_that_exits_while_pods_start_is_reported_at_once():
    bench = Bench()
    order = order_of(bench)
    ended = []

    def panics(path, _knob, text):
        if WEB.uid.replace("-", "_") in str(path):
            ended.append(text)
            raise SystemExit
        return text

    with enactor_on(bench, wrong=panics) as enactor:
        pods = enactor.begin("test")
        pods.bring(order)
        admitted = pods.admit(order, appears=lambda _: None)
    assert ended
    assert "the kubelet ended with status 2" in str(admitted[WEB.uid].failure)


def test_the_log_is_transferred_only_on_request(tmp_path):
    log = tmp_path / "kubelet.log"
    log.write_text("hello")
    orders = ['{"do": "state"}\n', '{"do": "log"}\n']
    answers = io.StringIO()
    serve(orders, answers, lambda server: Supervisor(server, str(log)))
    _, state, asked = map(json.loads, answers.getvalue().splitlines())
    assert state == {"runs": False, "status": None}
    assert asked == {"log": "hello"}
