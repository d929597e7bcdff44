"""For any sizes: while a pod is resized, its containers' limits together never exceed its own."""

from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.answer.succession import succession
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import ResizeOutcome, StepKind, resize_pods, standing_after
from memqos.model.knob import Bytes, Knob
from memqos.model.node import KubeletSettings, ReservationPolicy
from tests.unit.engine.pods import NODE, container, pod

TIERED = KubeletSettings(
    feature_gates={"MemoryQoS": True, "InPlacePodVerticalScaling": True},
    memory_reservation_policy=ReservationPolicy.TIERED,
)
# In MiB: a request, and the limit's distance above it.
SIZES = st.tuples(st.integers(8, 512), st.integers(1, 512))
SHAPES = st.integers(1, 4).flatmap(lambda count: st.tuples(*(st.tuples(SIZES, SIZES) for _ in range(count))))


def sized(sizes):
    return pod(
        *(
            container({"memory": f"{request}Mi"}, {"memory": f"{request + more}Mi"}, name=f"c{index}")
            for index, (request, more) in enumerate(sizes)
        )
    )


def limit(cgroup):
    value = cgroup.knobs[Knob.MEMORY_MAX].value
    assert isinstance(value, Bytes)
    return value.count


@given(SHAPES, st.integers(34, 37))
def test_limits_always_fit_and_are_applied(shape, minor):
    before, after = ([sizes[side] for sizes in shape] for side in (0, 1))
    plan = resize_pods([sized(before)], [sized(after)], Kubelet.of(node=NODE, settings=TIERED, release=f"1.{minor}"))
    (resize,) = plan.resizes
    if before == after:
        assert resize.outcome is ResizeOutcome.UNCHANGED
        return
    assert resize.outcome is ResizeOutcome.IN_PROGRESS
    old, new = plan.before.pods[0], plan.after.pods[0]
    for done in range(len(resize.steps) + 1):
        now = standing_after(resize.steps[:done], old, new)
        assert sum(limit(one.cgroup) for one in now.containers) <= limit(now.cgroup)
    wanted = [(request + more) << 20 for request, more in after]
    assert [limit(one.cgroup) for one in new.containers] == wanted
    assert limit(new.cgroup) == sum(wanted)


@given(SHAPES, st.integers(34, 37))
def test_every_changed_container_is_updated_once_shrinking_ones_first(shape, minor):
    before, after = ([sizes[side] for sizes in shape] for side in (0, 1))
    plan = resize_pods([sized(before)], [sized(after)], Kubelet.of(node=NODE, settings=TIERED, release=f"1.{minor}"))
    limits = {f"c{index}": (sum(old), sum(new)) for index, (old, new) in enumerate(zip(before, after, strict=True))}
    steps = [one.container for one in plan.resizes[0].steps if one.kind is StepKind.UPDATE_CONTAINER]
    assert sorted(steps) == sorted(f"c{index}" for index, (old, new) in enumerate(shape) if old != new)
    grows = [limits[name][1] > limits[name][0] for name in steps]
    shrinks = [limits[name][1] < limits[name][0] for name in steps]
    if True in grows and True in shrinks:
        assert max(place for place, one in enumerate(shrinks) if one) < grows.index(True)


def test_a_resize_after_an_upgrade_leaves_what_the_older_kubelet_wrote_above_pods():
    """1.27 writes memory.min of the Burstable class; 1.36 writes its memory.low, and memory.min stays (KEP-2570)."""
    old, new = (
        pod(container({"memory": "48Mi"}, {"memory": "96Mi"})),
        pod(container({"memory": "72Mi"}, {"memory": "96Mi"})),
    )
    gate = KubeletSettings(feature_gates={"MemoryQoS": True})
    first, second = (
        Kubelet.of(node=NODE, settings=settings, release=release)
        for settings, release in ((gate, "1.27"), (TIERED, "1.36"))
    )
    standing = succession(expect([old], first), expect([old], second))
    plan = resize_pods([old], [new], second, standing=standing)
    burstable = next(one for one in plan.after.qos if str(one.path).endswith("burstable"))
    assert [burstable.knobs[knob].value for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW)] == [
        Bytes(48 << 20),
        Bytes(72 << 20),
    ]
    assert plan.after.node.knobs[Knob.MEMORY_MIN].value == Bytes(72 << 20)
    restarted = resize_pods([old], [old], second, standing=standing)
    assert restarted.after.pods == standing.pods
