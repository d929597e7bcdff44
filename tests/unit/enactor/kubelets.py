"""Kubelet enactors whose kubelet is the stand-in, and orders for them."""

import contextlib
import dataclasses
import io
import os
import tempfile
import threading
from pathlib import Path

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.base import Order
from memqos.enactor.kubelet.enactor import Kubelet
from memqos.enactor.kubelet.session import kubelet_session
from memqos.enactor.kubelet.supervisor import Supervisor, serve
from memqos.engine.answer import verdict
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judged_files
from memqos.errors import RuntimeCallError
from memqos.model.node import CgroupDriver, ReservationPolicy
from memqos.model.path import ROOT, CgroupPath
from tests.stand_in_kubelet import Containers, StandInKubelet
from tests.unit.node.fakes import kubelet, pod

TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}
WEB, OTHER = pod("web"), pod("other", "16Mi", "48Mi")
METRICS = """kubelet_working_pods{{config="desired",lifecycle="sync",static=""}} 0
kubelet_pod_worker_duration_seconds_count{{operation_type="create"}} {created}
kubelet_pod_worker_duration_seconds_count{{operation_type="sync"}} {synced}
kubelet_pod_worker_duration_seconds_sum{{operation_type="sync"}} 99.5
"""
LARGER = dataclasses.replace(WEB, containers=pod("web", "64Mi", "96Mi").containers)


class InProcess:
    """A program that a target opened; a thread of this process does its work."""

    def __init__(self, work):
        ours, theirs = os.pipe()
        answers, told = os.pipe()
        self.stdin = io.FileIO(theirs, "w")
        self.stdout = io.FileIO(answers, "r")

        def served():
            with os.fdopen(ours) as orders, os.fdopen(told, "w") as replies:
                work(orders, replies)

        self._thread = threading.Thread(target=served, daemon=True)
        self._thread.start()

    def wait(self, timeout=None):
        self._thread.join(timeout)

    def kill(self):
        pass


class Sandboxes:
    """The part of a CRI adapter that the enactor calls."""

    def __init__(self, uids):
        self.uids = uids
        self.removed = []
        self.refusals = 0

    def sandboxes(self, **_):
        return {f"sandbox-{uid}": uid for uid in self.uids}

    def remove_sandbox(self, sandbox, **_):
        if self.refusals:
            self.refusals -= 1
            raise RuntimeCallError("RemovePodSandbox: the container is being removed.")
        self.removed.append(sandbox.id)


def _made(target, folders):
    for folder in folders:
        target.put(f"{folder}/.made", b"")
    return 0, b"", b""


def _answer_commands(bench):
    """Let the place in memory answer the commands that a session and an enactor run on a machine."""

    def systemctl(argv, *_):
        if argv[1] == "stop":
            bench.cgroups.remove(CgroupPath.parse(f"/{argv[2]}"))
        return 0, b"", b""

    def removed(argv, *_):
        for path in argv[2:]:
            bench.target.put(path, b"")
        return 0, b"", b""

    bench.target.put("/run/memqos/kubelet/kubelet.log", b"")
    bench.target.on(("mkdir",), lambda argv, *_: _made(bench.target, argv[2:]))
    bench.target.on(("systemctl",), systemctl)
    bench.target.on(("rm", "-f"), removed)
    bench.target.on(("sh", "-c"), lambda *_: (0, b"", b""))


@contextlib.contextmanager
def enactor_on(bench, *, minor=36, binaries=None, dies="", started=None, **changes):
    """A kubelet enactor whose kubelet is the stand-in with these changes.

    dies: the log of one that ends at once. started: a list for the processes.
    """
    containers, kubelets = Containers(), [] if started is None else started

    def launch(argv, log):
        Path(log).write_text(dies)
        process = StandInKubelet(
            argv,
            files=lambda path: bench.target.read(path, deadline=Deadline.after(5)),
            cgroups=bench.cgroups,
            node=bench.facts.node,
            release=f"1.{argv[0].rpartition('.')[2] if binaries else minor}",
            driver=CgroupDriver.SYSTEMD,
            containers=containers,
            **changes,
        )
        kubelets.append(process)
        if dies:
            process.terminate()
            process.returncode = 1
        return process

    def fetch(*_):
        synced = kubelets[-1].synced
        return METRICS.format(created=min(synced, 1), synced=max(synced - 1, 0))

    def work(orders, answers):
        with tempfile.NamedTemporaryFile() as log:
            serve(orders, answers, lambda server: Supervisor(server, log.name, launch=launch, fetch=fetch))

    _answer_commands(bench)
    bench.target.open = lambda _: InProcess(work)
    with kubelet_session(bench.target) as session:
        enactor = Kubelet(
            session,
            tree=CgroupTree(bench.target, bench.cgroups.hierarchy),
            runtime=Sandboxes([WEB.uid, OTHER.uid]),
            handler="runc",
            socket="/run/cri.sock",
            binaries=binaries or {minor: "/usr/local/bin/kubelet"},
        )
        enactor.rest_seconds = 0.1
        yield enactor


def order_of(bench, release="1.36", pods=(WEB, OTHER), **settings):
    under = kubelet(release, **(settings or TIERED))
    return Order(kubelet=bench.node.kubelet(under), plan=bench.node.plan(pods, under), pods=pods)


def wrong_files(bench, order, admitted):
    """The cgroups and knobs that are not as planned."""
    tree = CgroupTree(bench.target, bench.cgroups.hierarchy)
    files = judged_files(tree.hierarchy.version)
    reading = tree.read_cgroups(bench.cgroups.below([ROOT]), files, deadline=Deadline.after(10))
    ids = {(one.planned.uid, name): handle.id for one in admitted.values() for name, handle in one.containers.items()}
    found = list(verdict.judge_node(order.plan, reading, enacted_by=Setter.KUBELET))
    for uid in admitted:
        found += verdict.judge_pod(order.plan, uid, reading, enacted_by=Setter.KUBELET, ids=ids)
    return {(one.cgroup, one.knob) for one in found if one.verdict is not Verdict.CONFORMS}
