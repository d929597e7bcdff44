"""In-place resizes of pods: every outcome, every kind of step, and the resulting files."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import ResizePlan, Usage, resize_pods
from memqos.engine.resize.outcome import resize_reasons, resize_text
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import traits_of
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, KubeletSettings, ReservationPolicy, SwapBehavior
from memqos.model.pod import Pod, ResizePolicy, Resources
from tests.golden.reasons.nodes import NODE, V1, amounts, container, pod

ON = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True, "MemoryQoS": True}, eviction_hard={})
SWAPPING = replace(
    ON, feature_gates={**ON.feature_gates, "NodeSwap": True}, swap_behavior=SwapBehavior.LIMITED, fail_swap_on=False
)
PINNED = replace(ON, cpu_manager_policy="static")
LEVELS = replace(
    ON,
    feature_gates={
        **ON.feature_gates,
        "PodLevelResources": True,
        "InPlacePodLevelResourcesVerticalScaling": True,
    },
)
PROTECTED = replace(ON, memory_reservation_policy=ReservationPolicy.TIERED)
CRIO = Runtimes(cri=traits_of("cri-o", "1.34"), oci=traits_of("crun", "1.21"))
MIB = 1 << 20


def sized(name: str, cpu: str, memory: str, cpus: str = "", most: str = "", *, policy=None, **more: Any) -> Pod:
    """A pod of one container with these requests and, if given, limits."""
    limits = {key: value for key, value in (("cpu", cpus), ("memory", most)) if value}
    one = container("c", amounts(cpu=cpu, memory=memory), amounts(**limits))
    return pod(name, replace(one, resize_policy=policy or {}), **more)


SMALL = sized("web", "1", "64Mi", "1", "128Mi")
LARGE = sized("web", "2", "100Mi", "3", "256Mi")
RESTART = {"memory": ResizePolicy.RESTART_CONTAINER}
EQUAL = (sized("web", "1", "64Mi", "1", "64Mi"), sized("web", "2", "96Mi", "2", "96Mi"))
OTHER = sized("other", "2", "2Gi")
WHOLE = tuple(
    replace(SMALL, resources=Resources(requests=amounts(cpu="1", memory=size), limits=amounts(cpu="2", memory=most)))
    for size, most in (("128Mi", "512Mi"), ("256Mi", "1Gi"))
)


def resized(
    old: Pod, new: Pod, release="1.36", settings=ON, *, node=NODE, others=(), usage=None, **more: Any
) -> Callable[[], ResizePlan]:
    kubelet = Kubelet.of(node=node, settings=settings, release=release, **more)
    return lambda: resize_pods([old, *others], [new], kubelet, usage=usage or {})


RESIZES: dict[str, Callable[[], ResizePlan]] = {
    "nothing changes": resized(SMALL, SMALL),
    "refused by the API server": resized(SMALL, replace(LARGE, priority=7)),
    "a static pod of 1.31": resized(replace(SMALL, static=True), replace(LARGE, static=True), "1.31"),
    "swap": resized(SMALL, LARGE, settings=SWAPPING),
    "CPUs of its own": resized(*EQUAL, "1.33", PINNED),
    "CPUs of its own, in 1.36": resized(*EQUAL, "1.36", PINNED),
    "more than the node has": resized(SMALL, sized("web", "5", "64Mi", "5", "128Mi"), "1.34"),
    "more than is left": resized(SMALL, sized("web", "3", "64Mi", "3", "128Mi"), others=(OTHER,)),
    "growing in the alpha": resized(SMALL, LARGE, "1.29"),
    "shrinking in the alpha, with systemd": resized(LARGE, SMALL, "1.31", driver=CgroupDriver.SYSTEMD),
    "growing in the alpha on cgroup v1": resized(SMALL, LARGE, "1.30", replace(ON, feature_gates={
        "InPlacePodVerticalScaling": True}), node=V1),
    "growing in 1.32": resized(SMALL, LARGE, "1.32"),
    "shrinking in 1.33, made again": resized(*(
        replace(one, containers=tuple(replace(c, resize_policy=RESTART) for c in one.containers))
        for one in (LARGE, SMALL)
    ), "1.33"),
    "growing in 1.36": resized(SMALL, LARGE),
    "shrinking in 1.37": resized(LARGE, SMALL, "1.37"),
    "growing in 1.37, protected": resized(SMALL, LARGE, "1.37", PROTECTED),
    "shrinking in 1.37, protected": resized(LARGE, SMALL, "1.37", PROTECTED),
    "growing under CRI-O": resized(SMALL, LARGE, "1.35", runtimes=CRIO),
    "pod-level resources": resized(*WHOLE, settings=LEVELS),
    "below what is used": resized(
        LARGE, SMALL, usage={"web": Usage(pod=200 * MIB, containers={"c": 200 * MIB})}
    ),
    "below what is used, in 1.33": resized(
        replace(LARGE, containers=SMALL.containers), LARGE, "1.33", usage={"web": Usage(pod=300 * MIB)}
    ),
    "a pod without limits in 1.31": resized(sized("web", "1", "64Mi"), sized("web", "2", "96Mi", "", "128Mi"), "1.31"),
    "two at once": lambda: resize_pods(
        [SMALL, OTHER], [LARGE, sized("other", "2", "1Gi")], Kubelet.of(node=NODE, settings=ON, release="1.36")
    ),
}  # fmt: skip


def book() -> Iterator[str]:
    for title, made in RESIZES.items():
        yield f"== {title}"
        yield from resize_text(made()).split("\n\n")
    for title in ("growing in the alpha", "shrinking in 1.37", "two at once"):
        for knob in (Knob.MEMORY_MAX, Knob.MEMORY_HIGH, Knob.CPU_WEIGHT):
            yield f"== {knob}, {title}"
            yield from resize_reasons(RESIZES[title](), knob).split("\n\n")
    for title in ("shrinking in the alpha, with systemd", "growing in the alpha on cgroup v1"):
        for knob in (Knob.MEMORY_MAX, Knob.CPU_CFS_PERIOD_US):
            yield f"== {knob}, {title}"
            yield from resize_reasons(RESIZES[title](), knob).split("\n\n")
