"""The files of a container's cgroup as the runtimes write them, each with the reason for its value.

`engine.translate` computes the writes; this module adds the reasons for the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Input, Reason, Ruling, Rulings, Why
from memqos.engine.pod.cgroup import ContainerRequest
from memqos.engine.releases.table import Family, Novelty
from memqos.engine.translate.annotations import AnnotatedRequest
from memqos.engine.translate.container import created_with, updated
from memqos.engine.translate.resources import OciTranslation, RuntimeWrites, Unsayable
from memqos.engine.translate.runtime_rules import source, values
from memqos.engine.translate.specification import stand_in, unmodelled
from memqos.engine.translate.versions import Feature, RuntimeName
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.pod import Pod

__all__ = ["MadeFiles", "left_open", "made_files", "updated_files"]


@dataclass(slots=True, kw_only=True)
class MadeFiles:
    """The writes into a new container's cgroup; refusal: the runtime's error if it creates none, else "".

    annotated: the request, if annotations of the pod change it.
    """

    rulings: Rulings = field(default_factory=dict)
    refusal: str = ""
    annotated: ContainerResources | None = None


@dataclass(slots=True)
class _Case:
    """A message and its sender; annotated, to_oci: its translation by the newest possible runtime version."""

    request: ContainerRequest
    pod: Pod
    kubelet: Kubelet
    to_oci: OciTranslation
    annotated: AnnotatedRequest

    def asked(self) -> Rulings:
        """The files for which the kubelet's rules have a reason."""
        request = self.request
        return request.protection if request.mems is None else {**request.protection, Knob.CPUSET_MEMS: request.mems}

    def why(self, knob: Knob) -> Why:
        """The source of a file's reason: an annotation, the kubelet's rule if it has one, else the runtimes' rule."""
        if knob.value in self.annotated.by:
            return partial(_by_annotation, self, knob)
        asked = self.asked()
        return asked[knob].why if knob in asked else partial(_REASONS.get(knob, _by_itself), self, knob)

    def left_alone(self) -> dict[Knob, Ruling]:
        """The files that the message leaves unwritten on purpose."""
        request = self.request
        found = {knob: ruling for knob, ruling in self.asked().items() if ruling.written is ABSENT}
        if request.resources.cpu_period and not request.resources.cpu_quota and not self.kubelet.v2:
            found[Knob.CPU_CFS_QUOTA_US] = Ruling(ABSENT, self.why(Knob.CPU_CFS_QUOTA_US))
        return found

    def open(self, made: Rulings) -> dict[Knob, Ruling]:
        """The files with unknown values, and those that a sandbox leaves unwritten."""
        kubelet, request, found = self.kubelet, self.request, dict[Knob, Ruling]()
        runtimes = kubelet.runtimes
        if runtimes.cri.runtime is RuntimeName.CRI_DOCKERD:
            return {
                Knob(left.knob): Ruling(ABSENT, partial(_without_words, self, left))
                for left in self.to_oci.unsayable
                if left.knob in kubelet.files.planned and left.knob not in made
            }
        if runtimes.modelled and not runtimes.sandboxed and not self.annotated.unmodelled:
            return {}
        for knob in (*kubelet.files.planned, *kubelet.files.huge_pages.values(), Knob.CPUSET_CPUS, Knob.CPUSET_MEMS):
            why = unmodelled(knob, request.resources, self.to_oci.resources, runtimes)
            why = why or self.annotated.unmodelled.get(knob, "")
            if why:
                found[knob] = left_open(why, kubelet)
            elif runtimes.sandboxed and knob not in made:
                found[knob] = Ruling(ABSENT, partial(_stands_in, self))
        return found

    def inexpressible(self) -> dict[Knob, Ruling]:
        """The files whose value in the message the runtime's request cannot express."""
        return {
            Knob(left.knob): Ruling(ABSENT, partial(_without_words, self, left), inexpressible=left.why)
            for left in self.to_oci.unsayable
            if left.wordless and left.knob in self.kubelet.files.planned
        }


def made_files(request: ContainerRequest, pod: Pod, kubelet: Kubelet) -> MadeFiles:
    """The runtimes' writes when they create a container.

    With unknown versions, some may refuse the request: an existing container was not refused.
    """
    several = [
        created_with(request.resources, pod.annotations, request.container.name, one, kubelet.host)
        for one in kubelet.candidates
    ]
    return _files(request, pod, kubelet, several)


def updated_files(request: ContainerRequest, pod: Pod, kubelet: Kubelet) -> Rulings:
    """The runtimes' writes when they update a container."""
    several = [
        (AnnotatedRequest(resources=request.resources), *updated(request.resources, one, kubelet.host))
        for one in kubelet.candidates
    ]
    return _files(request, pod, kubelet, several).rulings


def _files(
    request: ContainerRequest,
    pod: Pod,
    kubelet: Kubelet,
    several: Iterable[tuple[AnnotatedRequest, OciTranslation, RuntimeWrites]],
) -> MadeFiles:
    held: list[dict[Knob, KnobValue]] = []
    case, refusal = None, ""
    for annotated, to_oci, writes in several:
        try:
            written = values(writes.files)
        except ValueError as error:
            refusal = refusal or str(error)
            continue
        if writes.refusal:
            refusal = refusal or writes.refusal
            continue
        held.append(written)
        case = case or _Case(request, pod, kubelet, to_oci, annotated)
        case.annotated.by |= annotated.by
    if case is None:
        return MadeFiles(refusal=refusal)
    rulings = case.left_alone()
    own = case.annotated.resources if case.annotated.by else None
    if len(held) == 1:
        asked = case.asked()
        for knob, value in held[0].items():
            ruling = None if knob.value in case.annotated.by else asked.get(knob)
            rulings[knob] = Ruling(value, case.why(knob) if ruling is None else ruling.why)
        return MadeFiles(rulings=rulings | case.inexpressible() | case.open(rulings), annotated=own)
    for knob in dict.fromkeys(knob for one in held for knob in one):
        first, *others = dict.fromkeys(one.get(knob, ABSENT) for one in held)
        rulings[knob] = Ruling(first, case.why(knob), otherwise=tuple(others))
    return MadeFiles(rulings=rulings | case.inexpressible() | case.open(rulings), annotated=own)


def left_open(why: str, kubelet: Kubelet) -> Ruling:
    """A file with an unknown value."""
    return Ruling(
        ABSENT, lambda: Reason(rule=why, revision=kubelet.runtimes_text, source="not modelled"), unmodelled=why
    )


def _by_annotation(case: _Case, knob: Knob) -> Reason:
    name = case.annotated.by[knob.value]
    text = case.annotated.resources.unified.get(knob.value, "")
    return Reason(
        rule=f"{knob} comes from a pod annotation that the runtime is configured to apply",
        revision=case.kubelet.runtimes_text,
        source="CRI-O AddUnifiedResourcesFromAnnotations" if text else "CRI-O MutateSpecGivenAnnotations",
        inputs=(Input(f"annotation {name}", case.pod.annotations.get(name, ""), case.pod.file or "given"),),
    )


def _stands_in(case: _Case) -> Reason:
    rule, source_of_it = stand_in(case.kubelet.runtimes)
    return Reason(rule=rule, revision=case.kubelet.runtimes_text, source=source_of_it)


_WORDLESS = {
    RuntimeName.DOCKER: "moby HostConfig, verifyPlatformContainerResources",
    RuntimeName.PODMAN: "podman compat containers_create.go, cliOpts",
    RuntimeName.CRI_DOCKERD: "cri-dockerd updateCreateConfig",
}
"""The API without the field: Docker's, or the part of OCI that runsc reads."""


def _without_words(case: _Case, left: Unsayable) -> Reason:
    """Why a file stays unwritten though the kubelet wants a value."""
    return Reason(
        rule=f"{left.knob} should be {left.value}, but is not written: {left.why.removesuffix('.')}",
        revision=case.kubelet.runtimes_text,
        source=_WORDLESS.get(case.kubelet.runtimes.cri.runtime, "gVisor runsc/cgroup"),
        because=(case.why(Knob(left.knob))(),) if left.knob in case.asked() or left.knob in _REASONS else (),
    )


def _memory_limit(case: _Case, knob: Knob) -> Reason:
    request = case.request
    from_pod = request.memory_from_pod
    origin = case.pod.origin if from_pod else request.container.origin
    place = origin.get("resources.limits.memory" if from_pod else "limits.memory")
    name = "pod-level limits.memory" if from_pod else "limits.memory"
    return Reason(
        rule=f"{knob} is the pod-level memory limit, for a container without one of its own"
        if from_pod
        else f"{knob} is the container's memory limit",
        revision=case.kubelet.revisions[Family.CONTAINER],
        source="kubelet calculateLinuxResources; CRI memory_limit_in_bytes",
        inputs=(Input(name, str(request.resources.memory_limit_in_bytes), place or "given"),),
    )


_NO_SWAP = "a memory limit without a swap limit means no swap: the runtime sets memory+swap to the memory limit"
_CRI_SOURCES = {
    RuntimeName.CONTAINERD: "containerd WithResources",
    RuntimeName.CRIO: "CRI-O SpecSetLinuxContainerResources",
    RuntimeName.DOCKER: "moby getMemoryResources",
    RuntimeName.PODMAN: "podman specgenutil getMemoryLimits",
    RuntimeName.BUNDLES: "as containerd WithResources",
    RuntimeName.CRI_DOCKERD: "cri-dockerd updateCreateConfig",
    RuntimeName.OTHER_CRI: "CRI LinuxContainerResources",
}


def _swap(case: _Case, knob: Knob) -> Reason:
    """The kubelet's reason if the message has the value, else the runtime's."""
    kubelet, sent, taken = case.kubelet, case.request.resources, case.to_oci.resources
    asked = sent.memory_swap_limit_in_bytes
    if knob in taken.unified or (asked and taken.memory_swap == asked):
        return case.request.swap.why()
    cri = kubelet.runtimes.cri
    certain = cri.has(Feature.SWAP_FOLLOWS_MEMORY)
    limit = sent.memory_limit_in_bytes
    return Reason(
        rule=_NO_SWAP if certain else f"{_NO_SWAP}; older versions do not change swap",
        revision=kubelet.runtimes_text,
        source=f"{_CRI_SOURCES[cri.runtime]}; {source(kubelet.runtimes.oci, knob)}",
        arithmetic=f"{limit} - {limit} = 0" if kubelet.v2 else "",
        because=(case.request.swap.why(),),
    )


def _shares(case: _Case, _: Knob) -> Reason:
    return Reason(
        rule="cpu.shares are the kubelet's request: 1024 per CPU, at least 2",
        revision=case.kubelet.revisions[Family.CPU],
        source=f"kubelet calculateLinuxResources; {source(case.kubelet.runtimes.oci, Knob.CPU_SHARES)}",
        inputs=(Input("cpu_shares", str(case.request.resources.cpu_shares), "CRI"),),
    )


def _weight(case: _Case, _: Knob) -> Reason:
    oci = case.kubelet.runtimes.oci
    doubtful = oci.known(Feature.QUADRATIC_WEIGHT) is None
    image = "quadratic (in older versions the linear)" if doubtful else oci.weight
    return Reason(
        rule=f"the runtime converts cpu.shares to cpu.weight by the {image} formula",
        revision=case.kubelet.runtimes_text,
        source=f"kubelet calculateLinuxResources; {source(oci, Knob.CPU_WEIGHT)}",
        inputs=(Input("cpu_shares", str(case.request.resources.cpu_shares), "CRI"),),
    )


def _quota(case: _Case, _: Knob) -> Reason:
    kubelet, sent = case.kubelet, case.request.resources
    files = kubelet.files.cpu_limit
    if sent.cpu_quota > 0:
        rule = f"{' and '.join(files)} {'is' if kubelet.v2 else 'are'} the CPU limit as quota per period"
    else:
        rule = "cpu.max is max: no CPU limit" if kubelet.v2 else "no CPU limit: cpu.cfs_quota_us stays -1"
    return Reason(
        rule=rule,
        revision=kubelet.revisions[Family.CONTAINER],
        source=f"kubelet milliCPUToQuota; {source(kubelet.runtimes.oci, files[0])}",
        inputs=(Input("cpu_quota", str(sent.cpu_quota), "CRI"), Input("cpu_period", str(sent.cpu_period), "CRI")),
    )


def _huge_pages(case: _Case, _: Knob) -> Reason:
    return Reason(
        rule="the runtime writes CRI hugepage_limits: the container's limits, 0 for sizes without one",
        revision=case.kubelet.revisions[Family.CONTAINER],
        source="kubelet GetHugepageLimitsFromResources",
    )


def _oom_group(case: _Case, _: Knob) -> Reason:
    kubelet = case.kubelet
    inputs: tuple[Input, ...] = ()
    if kubelet.release.has(Novelty.SINGLE_PROCESS_OOM_KILL):
        inputs = (kubelet.setting("singleProcessOOMKill", str(kubelet.single_process_oom_kill).lower()),)
    return Reason(
        rule="memory.oom.group is 1: an OOM kill takes the whole container",
        revision=kubelet.revisions[Family.CONTAINER],
        source="kubelet calculateLinuxResources",
        inputs=inputs,
    )


def _by_itself(case: _Case, knob: Knob) -> Reason:
    """A file that no request names, such as pids.max below Podman."""
    return Reason(
        rule=f"{case.kubelet.runtimes.cri.runtime} sets {knob} of every container",
        revision=case.kubelet.runtimes_text,
        source=f"{case.kubelet.runtimes.cri.runtime}, defaults of a new container",
    )


_REASONS: Mapping[Knob, Callable[[_Case, Knob], Reason]] = {
    Knob.MEMORY_MAX: _memory_limit,
    Knob.MEMORY_LIMIT_IN_BYTES: _memory_limit,
    Knob.MEMORY_SWAP_MAX: _swap,
    Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: _swap,
    Knob.CPU_WEIGHT: _weight,
    Knob.CPU_SHARES: _shares,
    Knob.CPU_MAX: _quota,
    Knob.CPU_CFS_QUOTA_US: _quota,
    Knob.CPU_CFS_PERIOD_US: _quota,
    Knob.HUGETLB_2MB_MAX: _huge_pages,
    Knob.HUGETLB_1GB_MAX: _huge_pages,
    Knob.HUGETLB_2MB_LIMIT_IN_BYTES: _huge_pages,
    Knob.HUGETLB_1GB_LIMIT_IN_BYTES: _huge_pages,
    Knob.MEMORY_OOM_GROUP: _oom_group,
}
