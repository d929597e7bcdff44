"""What only one who speaks CRI can ask: of sandboxes, of containers that do not run, and what is said of resources."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from memqos.catalog.requests import RequestCase
from memqos.engine.answer.finding import Finding
from memqos.engine.answer.verdict import OOM_SCORE_ADJ
from memqos.engine.translate.requested import requested, requested_again
from memqos.engine.translate.versions import RuntimeName
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.node.pods.refusing import NAME
from memqos.node.requests.consuming import Consumption
from memqos.node.requests.containers import observed, soon
from memqos.node.requests.verbs import verb
from memqos.runtime.base import ContainerHandle

__all__ = ["Conversation"]

_MIB = 1 << 20
_SANDBOX = ContainerResources(cpu_shares=2)
"""What CRI runtimes give a sandbox's own process, and no more: the pod's cgroup is the kubelet's."""
_POD = ContainerResources(memory_limit_in_bytes=96 * _MIB, cpu_shares=512, cpu_quota=50000, cpu_period=100000)


class Conversation(Consumption):
    """The verbs of suites about CRI alone; each gives the findings of one claim."""

    # ---- sandboxes

    @verb
    def sandbox_in_its_parent(self) -> Sequence[Finding]:
        """The sandbox's cgroup is directly below the cgroup_parent that RunPodSandbox was given."""
        cgroup = self.kubelet.layout.whole(self._pod.planned.cgroup.path, self._sandbox.id)
        seen = "there" if self.tree.exists(cgroup, deadline=soon()) else "none"
        why = "" if self._is_containerd or seen == "there" else "this runtime keeps no process for a sandbox"
        return [observed("cgroup", "there", seen, cgroup=str(cgroup), why_not=why)]

    @verb
    def sandbox_as_it_comes(self) -> Sequence[Finding]:
        """What the files of the sandbox's own cgroup show: nothing of the pod's resources and overhead."""
        container = requested(_SANDBOX, self.kubelet.runtimes, self.kubelet.host)
        sandbox = self._sandbox
        if not self._is_containerd:
            return [observed("sandbox", "", "", why_not="what this runtime gives a sandbox's process is not modelled")]
        handle = ContainerHandle(id=sandbox.id, name=NAME, sandbox=sandbox, log_path="")
        shown = self._shown(container, self._pod, handle)
        return [one for one in shown if one.knob != OOM_SCORE_ADJ]

    @verb
    def sandbox_beside(self) -> Sequence[Finding]:
        """A second sandbox in the parent, with resources and overhead, changes nothing and leaves nothing there."""
        pod = self._pod
        before, below = self._neighbours(pod), self._below(pod)
        with self._second_sandbox("beside", _POD):
            kept = self._kept(before, self._neighbours(pod))
        return [*kept, self._left(pod, below)]

    @verb
    def sandbox_updated(self) -> Sequence[Finding]:
        """UpdatePodSandboxResources writes no control file: the pod's cgroup is the kubelet's."""
        pod = self._pod
        before = self._neighbours(pod)
        try:
            self.runtime.update_sandbox(self._sandbox, overhead=_POD, resources=_POD, deadline=soon())
        except RuntimeCallError as error:
            why = f"the runtime does not do it: {error.data['details']}"
            return [observed("UpdatePodSandboxResources", "taken", "", why_not=why)]
        return self._kept(before, self._neighbours(pod))

    @verb
    def driver(self) -> Sequence[Finding]:
        """RuntimeConfig names the cgroup driver by which the containers' cgroups are made."""
        told = self._cri.reported_driver
        why = "" if told else "the runtime does not know RuntimeConfig, or tells it of its default handler alone"
        expected = str(self.kubelet.host.driver)
        return [observed("RuntimeConfig", expected, str(told or ""), why_not=why)]

    # ---- containers that do not run

    @verb
    def created_and_updated(self, case: RequestCase) -> Sequence[Finding]:
        """Updates of a container that was created and not started hold once it runs."""
        pod = self._pod
        container = requested(case.create, self.kubelet.runtimes, self.kubelet.host)
        try:
            handle = self._made(case.create)
            for update in case.updates:
                self.runtime.update(handle, update, deadline=soon())
                container = requested_again(container, update)
            self.runtime.start(handle, deadline=soon())
            return self._shown(container, pod, handle)
        finally:
            self._remove(pod)

    @verb
    def ended_and_updated(self, case: RequestCase) -> Sequence[Finding]:
        """An update of a container that has ended is answered, makes no cgroup, and changes nothing beside it."""
        pod = self._pod
        before = self._neighbours(pod)
        with self._running(case.create) as handle:
            self._end(handle)
            cgroup = self.kubelet.layout.whole(pod.planned.cgroup.path, handle.id)
            kept = self.tree.exists(cgroup, deadline=soon())
            told = "taken"
            try:
                for update in case.updates:
                    self.runtime.update(handle, update, deadline=soon())
            except RuntimeCallError:
                told = "refused"
            there = "there" if self.tree.exists(cgroup, deadline=soon()) else "none"
            expected = "taken" if self._is_containerd else told
            # CRI-O without systemd does so; systemd and containerd's shim remove it at once.
            why = "the runtime keeps the cgroup of a container that has ended until it is removed" if kept else ""
            return [
                observed("update", expected, told),
                observed("cgroup", "none", there, cgroup=str(cgroup), why_not=why),
                *self._kept(before, self._neighbours(pod)),
            ]

    # ---- what is said

    @verb
    def says_what_was_asked(self, case: RequestCase) -> Sequence[Finding]:
        """ContainerStatus.resources has every field that the requests gave, the later ones over the earlier."""
        with self._running(case.create) as handle:
            for update in case.updates:
                with contextlib.suppress(RuntimeCallError) if case.refused else contextlib.nullcontext():
                    self.runtime.update(handle, update, deadline=soon())
            told = self.runtime.status(handle, deadline=soon()).resources
        if told is None:
            return [observed("ContainerStatus.resources", "", "", why_not="the runtime says nothing of resources")]
        asked = case.requests[:-1] if case.refused else case.requests
        fields = _asked_in_all(asked)
        return [observed(f"ContainerStatus.{name}", text, _text_of(told, name)) for name, text in fields.items()]

    @property
    def _is_containerd(self) -> bool:
        return self.kubelet.runtimes.cri.runtime is RuntimeName.CONTAINERD


def _asked_in_all(requests: Sequence[ContainerResources]) -> Mapping[str, str]:
    """The fields that were given in any of these, the last of each, as text; oom_score_adj is no matter of updates."""
    told: dict[str, str] = {}
    for request in requests:
        for field in dataclasses.fields(request):
            value = getattr(request, field.name)
            if field.name == "unified":
                told |= {f"unified.{key}": text for key, text in value.items()}
            elif value and field.name != "oom_score_adj":
                told[field.name] = str(value)
    return told


def _text_of(resources: ContainerResources, name: str) -> str:
    """One field of an answer as text, as `_asked_in_all` names it."""
    field, _, key = name.partition(".")
    return resources.unified.get(key, "nothing") if key else str(getattr(resources, field))
