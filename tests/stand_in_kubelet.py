"""A kubelet's stand-in that is no fake enactor: it knows only what a kubelet is given, over HTTP and in its files.

It reads its KubeletConfiguration, registers a node, watches pods, writes what the engine expects of a kubelet with that
configuration and those pods, and reports their status. So a field that is lost on the way shows as a wrong value.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memqos.catalog.kubelet_config import settings_of
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.engine.releases.defaulting import seen_by
from memqos.engine.resize import ResizeOutcome, resize_pods, taken_over
from memqos.engine.translate.runtimes import TRIXIE
from memqos.model.knob import ABSENT, Knob
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.path import CgroupPath
from memqos.model.pod import Pod, Resources
from memqos.runtime.fake_cgroups import FakeCgroups
from tests.manifests import pods_of

NODE = {"metadata": {"name": "memqos"}, "spec": {}, "status": {}}

Wrong = Callable[[CgroupPath, Knob, str], str]
"""What is written to a file of a cgroup instead of a text; "" is nothing."""


def _as_it_is(_path: CgroupPath, _knob: Knob, text: str) -> str:
    return text


@dataclasses.dataclass(slots=True)
class Containers:
    """What outlives a kubelet: ids by pod uid and name, cgroups by pod uid, and the kubelets so far with their plan."""

    ids: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    pods: dict[str, CgroupPath] = dataclasses.field(default_factory=dict)
    plan: Plan | None = None
    kubelets: list[Kubelet] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Faults:
    """What a kubelet does otherwise. wrong: what it writes instead.

    late: seconds before it does anything. cannot_start: why no container starts, "" where they do. mute: whether it
    registers its node and does nothing about pods. hangs: the names of pods of which it makes nothing. follows: seconds
    after a resize until it writes the levels above. reports: seconds until it reports its registered node.

    refuses: the reason for each pod, by its name, that it does not admit. resizes: whether it carries out resizes, or
    defers them. forces: whether it also carries out those that it must not ("and pends": and reports them as pending
    all the same). ignores: whether it does nothing about any. forgets: whether it never tries a resize again that
    waits. pends: what it reports of these, "" for what is right. rewrites: whether it writes the cgroups of pods that
    run already, as no kubelet does. slow: whether it reports that it has seen a resize before it has done anything
    about it. updates: whether it updates the containers that an older kubelet has not recorded, as kubelets since 1.33
    do; it is `lags` seconds late with what it does for pods that run.
    """

    wrong: Wrong = _as_it_is
    refuses: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resizes: bool = True
    forces: str = ""
    ignores: bool = False
    hangs: Sequence[str] = ()
    forgets: bool = False
    pends: str = ""
    slow: bool = False
    rewrites: bool = False
    updates: bool = True
    lags: float = 0.0
    drops: str = ""
    late: float = 0.0
    cannot_start: str = ""
    mute: bool = False
    follows: float = 0.0
    reports: float = 0.0


class StandInKubelet:
    """Has the interface of a process. files: of the machine, by path. faults: the fields of `Faults`.

    A pod that an API server would have stored otherwise, with requests that it derives from limits, does not run.
    """

    pid = 1

    def __init__(
        self,
        argv: list[str],
        *,
        files: Callable[[str], bytes],
        cgroups: FakeCgroups,
        node: NodeFacts,
        release: str,
        driver: CgroupDriver,
        containers: Containers,
        **faults: Any,
    ) -> None:
        flags = dict(one.removeprefix("--").split("=", 1) for one in argv[1:])
        self._config = files(flags["config"])
        kubeconfig = json.loads(files(flags["kubeconfig"]))
        self._url = kubeconfig["clusters"][0]["cluster"]["server"]
        settings = settings_of(self._config, "config.json")
        self._kubelet = Kubelet.of(
            node=node,
            settings=settings,
            release=release,
            driver=driver,
            # The RuntimeClass of its pods is the runtime under test.
            runtimes=dataclasses.replace(TRIXIE, every_class=True),
        )
        self._cgroups = cgroups
        self._faults = Faults(**faults)
        self._pending: dict[str, str] = {}
        self._there = containers
        self._sizes: dict[str, int] = {}
        self._planned: Sequence[Pod] = ()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.returncode: int | None = None
        self._thread.start()

    @property
    def synced(self) -> int:
        """How many pods it has synced."""
        return len(self._sizes)

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self._ends.set()
        self._thread.join()
        self.returncode = 0

    kill = terminate

    def wait(self, timeout: float | None = None) -> int:  # noqa: ARG002
        return 0

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.load(reply)

    def _run(self) -> None:
        try:
            self._work()
        except SystemExit:
            self.returncode = 2
        except BaseException:
            self.returncode = 3
            raise

    def _work(self) -> None:
        self._ends.wait(self._faults.late)
        if not self._call("GET", "/api/v1/nodes")["items"]:
            self._call("POST", "/api/v1/nodes", NODE)
        if self._faults.drops and self._there.plan is not None:
            self._drop(self._there.plan)
        self._ends.wait(self._faults.reports)
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": str(time.time_ns())}
        self._call("PATCH", "/api/v1/nodes/memqos/status", {"status": {"conditions": [ready]}})
        while not self._ends.wait(0.005):
            if not self._faults.mute:
                self._sync()

    def _sync(self) -> None:
        items = self._call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dmemqos")["items"]
        running = [one for one in items if self._runs(one)]
        fresh = {one["metadata"]["uid"]: one["metadata"]["generation"] for one in running}
        if fresh == self._sizes and self._cgroups_stand:
            return
        if self._faults.slow and (moved := [one for one in running if one["metadata"]["generation"] > 1]):
            self._faults.slow = False
            self._status(moved[0], {"observedGeneration": moved[0]["metadata"]["generation"]})
            self._ends.wait(1.0)
            return
        text = "\n---\n".join(json.dumps(_stored(one)) for one in running)
        pods = pods_of(text.encode(), "pods.json") if running else ()
        anew = not self._planned
        plan = self._plan(pods)
        resized = any(one["metadata"]["generation"] > 1 for one in running)
        if not (resized and self._faults.follows):
            self._write_above(plan)
        if anew and self._there.plan is not None and self._there.plan.pods and running:
            self._ends.wait(self._faults.lags)
        for item in running:
            self._bring(plan, item, updates=anew and self._faults.updates)
        if resized and self._faults.follows:
            self._ends.wait(self._faults.follows)
            self._write_above(plan)
        self._sizes = fresh
        self._there.plan = plan
        if self._kubelet not in self._there.kubelets:
            self._there.kubelets.append(self._kubelet)

    def _runs(self, item: Mapping[str, Any]) -> bool:
        """Whether the pod is to run; others are removed or refused."""
        if item["metadata"].get("deletionTimestamp"):
            self._remove(item)
            return False
        if item["metadata"]["name"] in self._faults.hangs:
            return False
        reason = self._faults.refuses.get(item["metadata"]["name"])
        if reason is None and not _is_stored(item, self._kubelet):
            reason = "RequestsMissing"
        if reason is not None:
            self._status(item, {"phase": "Failed", "reason": reason, "message": "it does not fit"})
        return reason is None

    def _drop(self, plan: Plan) -> None:
        for cgroup in (plan.node, *plan.qos):
            for knob in cgroup.knobs.keys() & {Knob.MEMORY_MIN, Knob.MEMORY_LOW}:
                if cgroup.knobs[knob].written is not ABSENT:
                    self._cgroups.put(cgroup.path, knob, self._faults.drops)
        self._ends.wait(0.5)

    def _write_above(self, plan: Plan) -> None:
        for cgroup in (*plan.reserved, plan.node, *plan.qos):
            self._make(cgroup, cgroup.path)

    def _plan(self, pods: Sequence[Pod]) -> Plan:
        """Pods that run already are resized: a kubelet does not write all that it writes for a new pod."""
        there = self._there
        if not self._planned and there.plan is not None and there.plan.pods and pods and not self._faults.rewrites:
            self._planned = pods
            return taken_over(there.plan, expect(pods, self._kubelet), pods, self._kubelet, earlier=there.kubelets)
        known = {pod.uid: pod for pod in self._planned}
        moved = [pod for pod in pods if pod.uid in known and _sizes(known[pod.uid]) != _sizes(pod)]
        if self._faults.forgets:
            moved = [pod for pod in moved if pod.uid not in self._pending]
            pods = [known[pod.uid] if pod.uid in self._pending else pod for pod in pods]
        self._planned = pods
        if not moved:
            return expect(pods, self._kubelet)
        resized = resize_pods(list(known.values()), moved, self._kubelet)
        self._pending = {
            one.uid: self._faults.pends or f"{one.outcome}: {one.message}"
            for one in resized.resizes
            if one.outcome in {ResizeOutcome.DEFERRED, ResizeOutcome.INFEASIBLE}
        }
        if self._faults.forces and self._pending:
            self._pending = self._pending if self._faults.forces == "and pends" else {}
            return expect(pods, self._kubelet)
        # A resize that is not carried out leaves the pod as it was.
        self._planned = [known[pod.uid] if pod.uid in self._pending else pod for pod in pods]
        return resized.after

    @property
    def _cgroups_stand(self) -> bool:
        plan = expect((), self._kubelet)
        return plan.node.path in self._cgroups

    def _bring(self, plan: Plan, item: Mapping[str, Any], *, updates: bool) -> None:
        planned = plan.pod(item["metadata"]["uid"])
        if item["metadata"]["generation"] > 1 and self._faults.ignores:
            return
        if item["metadata"]["generation"] > 1 and not self._faults.resizes:
            self._status(item, {"conditions": [_pending(item, "Deferred: no room")]})
            return
        # As EnsureExists does, it leaves a pod's cgroup alone, unless the pod is resized.
        anew = self._faults.rewrites or item["metadata"]["generation"] > 1
        self._make(planned.cgroup, planned.cgroup.path, anew=anew)
        self._there.pods[planned.uid] = planned.cgroup.path
        for container in planned.containers:
            made = self._there.ids.setdefault((planned.uid, container.name), uuid.uuid4().hex)
            path = plan.layout.container(container.cgroup.path, made)
            self._make(container.cgroup, path, anew=anew or updates)
            self._cgroups.run_in(path, container.oom_score_adj)
        kinds = {"initContainerStatuses": "initContainers", "containerStatuses": "containers"}
        statuses = {
            name: [self._of_container(planned.uid, one) for one in item["spec"].get(kind, ())]
            for name, kind in kinds.items()
        }
        pending = self._pending.get(planned.uid)
        conditions = [] if pending is None else [_pending(item, pending)]
        told = {"observedGeneration": item["metadata"]["generation"], "conditions": conditions}
        self._status(item, {"phase": "Running", **told, **statuses})

    def _of_container(self, uid: str, container: Mapping[str, Any]) -> dict[str, Any]:
        made = self._there.ids[uid, container["name"]]
        return {
            "name": container["name"],
            "containerID": f"containerd://{made}",
            "restartCount": 0,
            "state": {"terminated": {"reason": self._faults.cannot_start}}
            if self._faults.cannot_start
            else {"running": {}},
            "resources": container["resources"],
        }

    def _status(self, item: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        meta = item["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        self._call("PATCH", path, {"status": status})

    def _remove(self, item: Mapping[str, Any]) -> None:
        path = self._there.pods.pop(item["metadata"]["uid"], None)
        if path is not None:
            self._cgroups.remove(path)
        self._call("DELETE", f"/api/v1/namespaces/{item['metadata']['namespace']}/pods/{item['metadata']['name']}")

    def _make(self, cgroup: PlannedCgroup, path: CgroupPath, *, anew: bool = True) -> None:
        if path not in self._cgroups:
            self._cgroups.make(path)
        elif not anew:
            return
        for expected in cgroup.knobs.values():
            text = self._faults.wrong(path, expected.knob, "" if expected.written is ABSENT else str(expected.written))
            if text:
                self._cgroups.put(path, expected.knob, text)


def _sizes(pod: Pod) -> list[Resources]:
    return [one.resources for one in pod.all_containers]


def _pending(item: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The condition of a resize that is not carried out. text: reason and message."""
    reason, _, message = text.partition(": ")
    told = {"type": "PodResizePending", "status": "True", "observedGeneration": item["metadata"]["generation"]}
    return {**told, "reason": reason, "message": message}


def _is_stored(item: Mapping[str, Any], kubelet: Kubelet) -> bool:
    """Whether the object has all requests that an API server derives from limits; a kubelet derives none."""
    containers = [one["resources"] for kind in ("initContainers", "containers") for one in item["spec"].get(kind, ())]
    [pod] = pods_of(json.dumps(_stored(item)).encode(), "pod.json")
    limited = all(one.get("limits", {}).keys() <= one.get("requests", {}).keys() for one in containers)
    return limited and pod.resources == seen_by(pod, kubelet).resources


def _stored(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what only an API server would have made of it."""
    return {**item, "status": {}}
