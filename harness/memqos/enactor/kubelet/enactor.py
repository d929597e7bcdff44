"""The enactor that runs a real kubelet, which gets pods and a configuration and writes all cgroups itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.enactor.base import Ability, AdmittedPod, Order, require
from memqos.enactor.kubelet.documents import RUNTIME_CLASS, configuration, pod_manifest, resized_manifest
from memqos.enactor.kubelet.pod_status import (
    Json,
    Starting,
    container_ids,
    container_statuses,
    goes_on,
    is_resized,
    is_settled,
    never_ran,
    note_updates,
    rejection,
    require_room,
    resize_pending,
    sandbox_of,
    start_failure,
)
from memqos.enactor.kubelet.removal import Removal
from memqos.enactor.kubelet.session import KubeletSession
from memqos.engine.answer.finding import Setter, Verdict
from memqos.engine.answer.verdict import judge_node, judge_pod, judged_files
from memqos.engine.plan import Plan, PlannedPod, RefusedBy
from memqos.engine.releases.release import Variant
from memqos.engine.resize import Resize, ResizePlan, ResizeStep
from memqos.errors import DeadlineError, EnactorNotAbleError, MachineryError
from memqos.model.path import CgroupPath
from memqos.model.pod import ContainerKind, Pod
from memqos.runtime.base import ContainerHandle, KubeletsRuntime
from memqos.target.base import checked

__all__ = ["Kubelet"]


_POD_SECONDS = 240.0
_RESIZE_SECONDS = 180.0
_CALL_SECONDS = 60.0
_LEVELS_SECONDS = 75.0
_REST_SECONDS = 3.0
_AT_A_TIME = 4
_STATE = "/var/lib/kubelet"
_CHECKPOINTS = (
    f"{_STATE}/memory_manager_state",
    f"{_STATE}/cpu_manager_state",
    f"{_STATE}/allocated_pods_state",
    f"{_STATE}/actuated_pods_state",
    f"{_STATE}/pod_status_manager_state",
)
"""What an operator removes after draining a node (kubelet cm, "please drain node and remove policy state file"), and
what a kubelet allocated to pods, by uid: it drops them from its memory, and from the files with the next pod's (kubelet
allocation state, RemoveOrphanedPods), but the next pods may have the same uids, unlike in a cluster."""

RESIZES_SINCE = 33
"""InPlacePodVerticalScaling is beta and enabled by default since 1.33."""

NEW_HASH_SINCE = 31
"""Kubelets since 1.31 hash other fields of a container, and end the containers of older ones (kubernetes#129385)."""

_WHY_NOT = {
    Ability.ALTER: "a kubelet carries out its own plan alone: it places containers by its Memory Manager, and writes "
    "the sums of its pods.",
    Ability.RECONCILE: "a kubelet writes a pod's cgroup when it makes or resizes it, and never again.",
}


class Kubelet:
    """A kubelet in the machine. handler: the runtime's handler, "" for the default. socket: the CRI socket.

    binaries: paths in the machine by minor version (36 for 1.36); the first is the kubelet under test.
    levels_seconds: how long a kubelet that takes over may need for its first writes. rest_seconds: without a sync of a
    pod, it has done the first. pod_seconds, resize_seconds: how long pods that start together, or a resize, may take.
    """

    setter = Setter.KUBELET

    def __init__(
        self,
        session: KubeletSession,
        *,
        tree: CgroupTree,
        runtime: KubeletsRuntime,
        handler: str,
        socket: str,
        binaries: Mapping[int, str],
    ) -> None:
        self.session = session
        self.tree = tree
        self.runtime = runtime
        self.handler = handler
        self.socket = socket
        self.binaries = binaries
        self.levels_seconds = _LEVELS_SECONDS
        self.rest_seconds = _REST_SECONDS
        self.pod_seconds = _POD_SECONDS
        self.resize_seconds = _RESIZE_SECONDS
        self._plan: Plan | None = None

    @property
    def minor(self) -> int:
        """The minor version of the kubelet that was started last; before that, of the one under test."""
        return next((minor for minor, path in self.binaries.items() if path == self.session.binary), self._first)

    @property
    def _first(self) -> int:
        return next(iter(self.binaries))

    def why_not(self, ability: Ability) -> str:
        """A kubelet never reconciles a pod's cgroup. The one that runs now resizes in place since 1.33.

        Two kubelets leave each other's containers running if both are older than 1.31, or neither is.
        """
        if ability is Ability.UPGRADE and len(self.binaries) == 1:
            return "only one kubelet is given; use --kubelet-upgrade PATH"
        if ability is Ability.UPGRADE and len({minor < NEW_HASH_SINCE for minor in self.binaries}) > 1:
            return (
                f"kubelets since 1.{NEW_HASH_SINCE} end the containers of older ones, because they hash other fields "
                "of a container (kubernetes#129385)."
            )
        if ability is Ability.RESIZE and self.minor < RESIZES_SINCE:
            return "this kubelet resizes in place only behind an alpha gate; kubelets since 1.33 do so by default."
        return _WHY_NOT.get(ability, "")

    @property
    def releases(self) -> Sequence[str]:
        """Of the kubelets that it can run, the one under test first."""
        return [f"1.{minor}" for minor in self.binaries]

    def answers(self) -> KubeletSession:
        """The session, which reads the API stand-in and the kubelet's endpoints."""
        return self.session

    def begin(self, name: str) -> KubeletEnactment:  # noqa: ARG002 - the kubelet marks nothing
        """Nothing yet."""
        return KubeletEnactment(self)

    def leftovers(self) -> Sequence[CgroupPath]:
        """Always empty: the run booted the machine itself."""
        return ()

    def bring(self, order: Order) -> None:
        """Start the kubelet with the order's configuration."""
        minor = order.kubelet.release.minor
        if order.kubelet.variant is not Variant.SHIPPED:
            raise EnactorNotAbleError(
                f"no kubelet follows the rules of the variant '{order.kubelet.variant}' of {order.kubelet.release}.",
                next_step="Leave out --kubelet-binary: memqos then carries them out itself.",
            )
        if minor not in self.binaries:
            there = " and ".join(f"1.{one}" for one in self.binaries)
            raise EnactorNotAbleError(
                f"the kubelet's release is {there}, but the case is about {order.kubelet.release}.",
                next_step=f"Give a kubelet of {order.kubelet.release}: --kubelet-binary or --kubelet-upgrade PATH.",
            )
        self._plan = order.plan
        self._make_reserved(order.plan)
        runtime_class = {"metadata": {"name": RUNTIME_CLASS}, "handler": self.handler}
        self.session.put("node.k8s.io/v1", "runtimeclasses", [runtime_class])
        self.session.run(
            configuration(order.kubelet), binary=self.binaries[minor], socket=self.socket, anew=order.succeeds
        )

    def remove_state_of_another(self, order: Order) -> None:
        """Remove kubepods, the QoS classes and checkpoints if the order requires another configuration or release.

        A class may hold what the next kubelet does not write, such as the memory.min of kubelets before 1.36.
        """
        if self._plan is None or self.runs_as(order):
            return
        plan, self._plan = self._plan, None
        self.session.stop()
        # A kubelet refuses to start with the checkpoint of another policy, or of other reservations.
        self.tree.target.run(["rm", "-f", *_CHECKPOINTS], deadline=Deadline.after(_CALL_SECONDS))
        name = str(plan.node.path).rpartition("/")[2]
        folder = self.tree.hierarchy.folder(plan.node.path)
        stop = ["systemctl", "stop", name]
        remove = ["find", folder, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]
        with contextlib.suppress(MachineryError):
            # What cannot be removed is judged as it is.
            self.tree.target.run(stop if name.endswith(".slice") else remove, deadline=Deadline.after(_CALL_SECONDS))

    def runs_as(self, order: Order) -> bool:
        """Whether the kubelet that runs now is the order's, with its configuration."""
        same = self.session.binary == self.binaries.get(order.kubelet.release.minor, "")
        return same and self.session.config == configuration(order.kubelet)

    def _make_reserved(self, plan: Plan) -> None:
        """The cgroups that the configuration reserves for: a kubelet requires that they exist."""
        for cgroup in plan.reserved:
            slices = str(cgroup.path).rpartition("/")[2]
            argv = ["systemctl", "start", slices] if slices.endswith(".slice") else self._mkdir(cgroup.path)
            checked(self.tree.target.run(argv, deadline=Deadline.after(_CALL_SECONDS)), where=self.tree.target.address)

    def _mkdir(self, path: CgroupPath) -> list[str]:
        return ["mkdir", "-p", self.tree.hierarchy.folder(path)]


class KubeletEnactment:
    """The pods of one plan after another, through one kubelet."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._session = kubelet.session
        self._pods: dict[str, AdmittedPod] = {}
        self._kept: frozenset[str] = frozenset()
        self._order: Order | None = None

    @property
    def pods(self) -> Mapping[str, AdmittedPod]:
        """The pods of the last plan, by uid."""
        return self._pods

    def bring(self, order: Order) -> None:
        """Run a kubelet with the order's configuration.

        Pods keep running if the order succeeds another, or if it wants them as they are beside new ones. MachineryError
        for a kubelet that has ended by itself since.
        """
        self._session.require_running()
        if not order.succeeds:
            self._kept = self._going_on(order)
            self._remove_pods(self._kept)
            self._kubelet.remove_state_of_another(order)
        self._kubelet.bring(order)
        if order.succeeds:
            self._await_first_syncs()
            self._await_values(order.plan)
            for planned in order.plan.pods:
                note_updates(self._pods[planned.uid], planned)
        self._order = order

    def _going_on(self, order: Order) -> frozenset[str]:
        """The uids of the pods that the order leaves alone."""
        before = self._order
        if before is None or before.steering.memory_volumes != order.steering.memory_volumes:
            return frozenset()
        if not self._pods or not self._kubelet.runs_as(order):
            return frozenset()
        items = {one["metadata"]["uid"]: one for one in self._session.objects("v1", "pods")}
        found = frozenset(uid for uid, one in self._pods.items() if goes_on(one, order, items.get(uid, {})))
        # Only a new pod makes the kubelet write the levels above at once.
        return found if len(found) < len(order.plan.pods) else frozenset()

    def _await_first_syncs(self) -> None:
        """Wait until the kubelet that has taken over has synced its pods and rests, at most for half a period.

        A healthy one may not have done so: what it must not change would be judged too early.
        """
        running = sum(one["status"].get("phase") not in {"Succeeded", "Failed"} for one in self._items())
        last, rests = 0.0, Deadline.after(0)

        def synced() -> bool:
            nonlocal last, rests
            if last != (count := self._session.counted("kubelet_pod_worker_duration_seconds_count")):
                last, rests = count, Deadline.after(self._kubelet.rest_seconds)
            return count >= running and rests.expired

        with contextlib.suppress(DeadlineError):
            self._session.until("every pod is synced", synced, Deadline.after(self._kubelet.levels_seconds / 2))

    def _await_values(self, plan: Plan) -> None:
        """Wait until every level is as planned, at most for a period; then it is judged anyway.

        The kubelet is healthy before it has written anything: it writes the levels above pods every minute
        (`periodicQOSCgroupUpdateInterval`), and updates containers when it first syncs their pods.
        """
        tree, setter = self._kubelet.tree, self._kubelet.setter
        leaves = {(uid, name): one.id for uid, pod in self._pods.items() for name, one in pod.containers.items()}
        paths = [one.path for one in (*plan.reserved, plan.node, *plan.qos)]
        for pod in plan.pods:
            paths.append(pod.cgroup.path)
            containers = [one for one in pod.containers if (pod.uid, one.name) in leaves]
            paths += [plan.layout.container(one.cgroup.path, leaves[pod.uid, one.name]) for one in containers]
        files = judged_files(tree.hierarchy.version)

        def written() -> bool:
            reading = tree.read_cgroups(paths, files, deadline=Deadline.after(_CALL_SECONDS))
            found = list(judge_node(plan, reading, enacted_by=setter))
            for pod in plan.pods:
                found += judge_pod(plan, pod.uid, reading, enacted_by=setter, ids=leaves)
            return all(one.verdict is not Verdict.DEVIATES for one in found)

        with contextlib.suppress(DeadlineError):
            self._session.until("every level is as planned", written, Deadline.after(self._kubelet.levels_seconds))

    def admit(self, order: Order, *, appears: Callable[[PlannedPod], None]) -> Mapping[str, AdmittedPod]:
        """Give the kubelet the pods, and wait until their containers have been started.

        They arrive in the order of `order.pods`. Those that the plan refuses come last: the kubelet itself has to
        reject them. EnactorNotAbleError if another pod does not fit the machine: the plan's sums would then not be the
        node's.
        """
        plans = {planned.uid: planned for planned in order.plan.pods}
        there = {uid: self._pods[uid] for uid in self._kept}
        # The order of arrival decides about NUMA nodes.
        self._pods = {
            pod.uid: there.get(pod.uid)
            or AdmittedPod(pod=pod, planned=plans[pod.uid], mounts=order.steering.mounts(pod))
            for pod in order.steering.pods(order.pods)
            if pod.uid in plans
        }
        for uid, admitted in there.items():
            admitted.planned = plans[uid]
            appears(admitted.planned)
        memory = order.steering.memory_volumes
        pending = [one for uid, one in self._pods.items() if uid not in there]
        starting, progress = list[Starting](), 0.0
        while pending or starting:
            # A kubelet starts all its pods at once; in an emulated machine that takes longer than a few at a time.
            turn, pending = pending[: _AT_A_TIME - len(starting)], pending[_AT_A_TIME - len(starting) :]
            manifests = [pod_manifest(one.pod, order.kubelet, one.mounts, memory) for one in turn]
            self._session.put("v1", "pods", manifests)
            until = Deadline.after(self._kubelet.pod_seconds)
            starting += [Starting(one, until) for one in turn]
            try:
                ended = self._await_any(starting, appears)
                progress = SYSTEM_CLOCK.now()
            except MachineryError as error:
                is_late = isinstance(error, DeadlineError) and progress > starting[0].until.started
                # If none has started since, the others would take as long, and start as little.
                ended = [one.admitted for one in (starting[:1] if is_late else starting)]
                for one in ended if is_late else [*ended, *pending]:
                    one.failure = self._failure(one, error)
                pending = pending if is_late else []
            require_room(ended)
            uids = {one.planned.uid for one in ended}
            starting = [one for one in starting if one.admitted.planned.uid not in uids]
        self._offer_refused(order)
        return self._pods

    def _offer_refused(self, order: Order) -> None:
        """Give the kubelet the pods that the plan says it refuses, and wait until it has decided about each."""
        refused = {one.pod for one in order.plan.refusals if one.by is RefusedBy.KUBELET}
        steering = order.steering
        manifests = [
            pod_manifest(pod, order.kubelet, steering.mounts(pod), steering.memory_volumes)
            for pod in steering.pods(order.pods)
            if pod.uid in refused
        ]
        if not manifests or self._session.config is None:
            return
        self._session.put("v1", "pods", manifests)

        def decided() -> bool:
            phases = {one["metadata"]["uid"]: (one.get("status") or {}).get("phase") for one in self._items()}
            return all(phases.get(one["metadata"]["uid"]) not in {None, "", "Pending"} for one in manifests)

        # What it has not decided then is judged as it is.
        with contextlib.suppress(DeadlineError):
            self._session.until(
                "the kubelet decides about every pod", decided, Deadline.after(self._kubelet.pod_seconds)
            )

    def _await_any(self, starting: Sequence[Starting], appears: Callable[[PlannedPod], None]) -> Sequence[AdmittedPod]:
        """Wait until some of these pods have started all containers or failed; these. MachineryError without one."""
        settled: list[AdmittedPod] = []

        def any_settled() -> bool:
            for one in starting:
                if not one.seen and self._is_there(one.admitted.planned.cgroup.path):
                    one.seen = True
                    appears(one.admitted.planned)
            items = {one["metadata"]["uid"]: one for one in self._session.objects("v1", "pods")}
            for admitted in (one.admitted for one in starting):
                item = items.get(admitted.planned.uid, {})
                if is_settled(admitted, item):
                    self._settle(admitted, item)
                    settled.append(admitted)
            return bool(settled)

        self._session.until("all containers have been started", any_settled, starting[0].until)
        return settled

    def _failure(self, admitted: AdmittedPod, error: MachineryError) -> MachineryError:
        try:
            item = self._item(admitted.planned.uid)
        except MachineryError:
            item = {}
        return start_failure(admitted, item, error)

    def _is_there(self, path: CgroupPath) -> bool:
        folder = self._kubelet.tree.hierarchy.folder(path)
        return self._kubelet.tree.target.list(folder, deadline=Deadline.after(_CALL_SECONDS)) is not None

    def _settle(self, admitted: AdmittedPod, item: Json) -> None:
        """Record the kubelet's report about a started or failed pod."""
        status = item.get("status") or {}
        if status.get("phase") == "Failed" and not container_ids(status):
            admitted.failure = rejection(admitted, status)
            return
        planned = admitted.planned
        found = self._kubelet.runtime.sandboxes(deadline=Deadline.after(_CALL_SECONDS))
        sandbox_id = next((one for one, uid in found.items() if uid == planned.uid), "")
        admitted.sandbox = sandbox_of(planned, sandbox_id, handler=self._kubelet.handler)
        admitted.failure = never_ran(admitted, status)
        kinds = {one.name: one.kind for one in planned.containers}
        restarts = {one["name"]: one.get("restartCount", 0) for one in container_statuses(status)}
        for name, container_id in container_ids(status).items():
            if kinds.get(name) is ContainerKind.INIT:
                continue
            log = f"{admitted.sandbox.spec.log_directory}/{name}/{restarts[name]}.log"
            admitted.containers[name] = ContainerHandle(
                id=container_id, name=name, sandbox=admitted.sandbox, log_path=log
            )
        admitted.requested = {
            one.name: (one.resources,) for one in planned.containers if one.name in admitted.containers
        }

    def resize(
        self,
        plan: ResizePlan,
        resize: Resize,
        desired: Pod,
        *,
        after: Callable[[ResizeStep], None],
        above: bool = True,
    ) -> None:
        """Change the pod's spec as the resize subresource does, and wait until the kubelet reports it done.

        The kubelet takes all steps by itself, so `after` is called once, after the last. MachineryError for a resize
        that it defers or finds infeasible, with reason and message as `pending` in its data.
        """
        require(self._kubelet, Ability.RESIZE)
        admitted = self._pods[resize.uid].require()
        planned = plan.after.pod(resize.uid)
        assert self._order is not None  # noqa: S101 - an order admitted the pod
        item = resized_manifest(self._item(desired.uid), desired, self._order.kubelet, admitted.mounts)
        self._session.put("v1", "pods", [item])

        def done() -> bool:
            item = self._item(resize.uid)
            status = item.get("status") or {}
            if (pending := resize_pending(item, status)) is not None:
                raise MachineryError(
                    f"the kubelet does not carry out the resize: {pending}",
                    where=f"pod {resize.namespace}/{resize.name}",
                    data={"pending": pending},
                )
            return is_resized(item, status)

        self._session.until("the kubelet reports the resize done", done, Deadline.after(self._kubelet.resize_seconds))
        admitted.pod, admitted.planned = desired, planned
        self._settle(admitted, self._item(resize.uid))
        if above:
            self._await_values(plan.after)
        for step in resize.steps[-1:]:
            after(step)

    def _items(self) -> list[Json]:
        return self._session.objects("v1", "pods")

    def _item(self, uid: str) -> Json:
        return next((one for one in self._items() if one["metadata"]["uid"] == uid), {})

    def reconcile(self, plan: Plan) -> None:  # noqa: ARG002
        """EnactorNotAbleError: a kubelet writes the cgroup of a pod once."""
        require(self._kubelet, Ability.RECONCILE)

    def clear(self) -> None:
        """Remove the pods. If they are few, the kubelet runs on and keeps the classes' cgroups for the next plan.

        MachineryError for a kubelet that has ended by itself, however the pods were judged.
        """
        try:
            self._session.require_running()
        finally:
            self._remove_pods()

    def _remove_pods(self, kept: frozenset[str] = frozenset()) -> None:
        """Remove all pods but those with these uids: see `Removal.remove`."""
        kubelet = self._kubelet
        removal = Removal(
            session=self._session, tree=kubelet.tree, runtime=kubelet.runtime, handler=kubelet.handler, pods=self._pods
        )
        removal.remove(kept)
        self._pods = {uid: self._pods[uid] for uid in kept}
