"""Properties of every plan, for any pods, release and configuration."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Release, Variant
from memqos.engine.releases.table import Novelty
from memqos.model.knob import ABSENT, MAX, Bytes, Knob
from memqos.model.node import ReservationPolicy
from memqos.model.pod import ContainerKind, QosClass
from tests.unit.engine.anything import FACTORS, PODS, POLICIES, RELEASES, VARIANTS
from tests.unit.engine.pods import NODE, ON, amounts, container, pod, resources


@given(PODS, RELEASES, FACTORS, POLICIES, st.randoms())
def test_plan_is_deterministic_and_order_independent(pods, release, factor, policy, random):
    variant = random.choice(list(Variant))
    settings_ = replace(ON, throttling_factor=factor, memory_reservation_policy=policy)
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings_, release=release, variant=variant))
    shuffled = list(pods)
    random.shuffle(shuffled)
    assert expect(shuffled, Kubelet.of(node=NODE, settings=settings_, release=release, variant=variant)) == plan


@given(PODS, RELEASES, FACTORS, POLICIES, VARIANTS)
def test_memory_high_is_above_the_request_and_never_above_its_top(pods, release, factor, policy, variant):
    settings_ = replace(ON, throttling_factor=factor, memory_reservation_policy=policy)
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings_, release=release, variant=variant))
    for given_, planned in zip(sorted(pods, key=lambda one: one.name), plan.pods, strict=True):
        for one, cgroup in zip(given_.all_containers, planned.containers, strict=True):
            high = cgroup.cgroup.knobs[Knob.MEMORY_HIGH].written
            if high is ABSENT:
                continue
            limits = one.resources.limits.get("memory")
            request = one.resources.requests.get("memory", limits)
            top = limits.value if limits is not None and limits.value else NODE.memory
            bottom = request.value if request else 0
            assert bottom < high.count <= top
            if Release.parse(release).has(Novelty.HIGH_BETWEEN):
                # Exactly, except for whole pages and the precision of float64.
                exact = bottom + factor * (top - bottom)
                assert exact - NODE.page_size - 1 < high.count <= exact + 1


@given(PODS, RELEASES, POLICIES)
def test_protection_of_a_parent_covers_its_children(pods, release, policy):
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings_, release=release))

    def protected(cgroup, knob):
        value = cgroup.knobs[knob].value
        return value.count if isinstance(value, Bytes) else 0

    pages = NODE.page_size * (len(pods) + 1)
    for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW):
        burstable = [one.cgroup for one in plan.pods if one.qos is QosClass.BURSTABLE]
        below = sum(protected(one, knob) for one in burstable)
        assert below <= protected(plan.qos[0], knob) + pages
    # A BestEffort pod with overhead gets memory.min for it (up to 1.35), which no sum above it counts.
    counted = [one.cgroup for one in plan.pods if one.qos is not QosClass.BEST_EFFORT]
    every = sum(protected(one, Knob.MEMORY_MIN) for one in counted)
    assert every <= protected(plan.node, Knob.MEMORY_MIN) + pages


@given(PODS, st.sampled_from(["1.36", "1.37"]))
def test_tiered_kubepods_memory_min_is_the_sum_of_its_pods(pods, release):
    """Guaranteed pods' memory.min and Burstable pods' memory.low together, exactly: both are written unrounded."""
    plan = expect(
        pods,
        Kubelet.of(
            node=NODE, settings=replace(ON, memory_reservation_policy=ReservationPolicy.TIERED), release=release
        ),
    )
    both = (Knob.MEMORY_MIN, Knob.MEMORY_LOW)
    values = [
        one.cgroup.knobs[knob].written for one in plan.pods for knob in both if one.qos is not QosClass.BEST_EFFORT
    ]
    asked = sum(value.count for value in values if isinstance(value, Bytes))
    assert plan.node.knobs[Knob.MEMORY_MIN].written == Bytes(asked)


@given(PODS, RELEASES)
def test_a_pod_covers_its_containers(pods, release):
    """A pod's limit, if any, is at least each container's; its request is at least the sum of its apps'."""
    plan = expect(pods, Kubelet.of(node=NODE, settings=ON, release=release))
    for planned in plan.pods:
        whole = planned.cgroup.knobs[Knob.MEMORY_MAX].written
        if whole is ABSENT:
            continue
        for one in planned.containers:
            own = one.cgroup.knobs[Knob.MEMORY_MAX].written
            assert own is ABSENT or own.count <= whole.count
    assert all(MAX is not one.cgroup.knobs[Knob.MEMORY_MAX].written for one in plan.pods)


@given(PODS, RELEASES, POLICIES, st.randoms())
def test_the_order_of_a_pods_containers_changes_no_value(pods, release, policy, random):
    """App containers run in parallel: neither their values nor the pod's depend on the order."""
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))

    def shown(several):
        plan = expect(several, Kubelet.of(node=NODE, settings=settings_, release=release), reasons=False)
        containers = {(one.uid, own.name): own for one in plan.pods for own in one.containers}
        return [one.cgroup for one in plan.pods], containers, plan.qos, plan.node

    shuffled = [replace(one, containers=tuple(random.sample(one.containers, len(one.containers)))) for one in pods]
    assert shown(shuffled) == shown(pods)


@given(PODS, RELEASES, POLICIES)
def test_protection_of_a_pod_covers_its_containers(pods, release, policy):
    """Parallel containers request no more than the pod; neither does an init container, which runs alone."""
    settings_ = replace(ON, memory_reservation_policy=policy, throttling_factor=Fraction(9, 10))
    plan = expect(pods, Kubelet.of(node=NODE, settings=settings_, release=release), reasons=False)

    def asked(cgroup, knob):
        value = cgroup.knobs[knob].written
        return value.count if isinstance(value, Bytes) else 0

    for one in plan.pods:
        for knob in (Knob.MEMORY_MIN, Knob.MEMORY_LOW):
            apps = sum(asked(own.cgroup, knob) for own in one.containers if own.kind is ContainerKind.APP)
            init = max((asked(own.cgroup, knob) for own in one.containers), default=0)
            assert max(apps, init) <= asked(one.cgroup, knob)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 20), FACTORS)
def test_memory_high_of_a_pod_is_above_its_request(request, more, overhead, factor):
    """The pod's own, of 1.37, for a pod-level limit: with overhead in the request and in the limit."""
    one = pod(
        container(),
        resources=resources({"memory": request}, {"memory": request + more}),
        overhead=amounts({"memory": overhead}),
    )
    settings_ = replace(ON, throttling_factor=factor)
    plan = expect([one], Kubelet.of(node=NODE, settings=settings_, release="1.37"), reasons=False)
    high = plan.pods[0].cgroup.knobs[Knob.MEMORY_HIGH].written
    assert high is ABSENT or request + overhead < high.count <= request + more + overhead
