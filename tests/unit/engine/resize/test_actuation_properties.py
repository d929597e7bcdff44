"""Properties of every resize's steps."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memqos.engine.resize import StepKind
from memqos.model.knob import CpuMax, Knob, Number
from memqos.model.node import CgroupVersion
from tests.unit.engine.pods import NODE, pod
from tests.unit.engine.resize.plans import MI, one, planned

LIMITS = st.integers(1, 64)


@given(
    sizes=st.lists(st.tuples(LIMITS, LIMITS), min_size=1, max_size=6),
    release=st.sampled_from(["1.27", "1.31", "1.32", "1.34", "1.36", "1.37"]),
    version=st.sampled_from([CgroupVersion.V1, CgroupVersion.V2]),
)
def test_containers_always_fit_below_their_pod(sizes, release, version):
    def of(index):
        return pod(*(
            one(f"c{number}", ("1m", f"{pair[index]}0m"), ("1Mi", f"{pair[index]}Mi"))
            for number, pair in enumerate(sizes)
        ))  # fmt: skip

    plan = planned(of(0), of(1), release, node=replace(NODE, cgroup_version=version))
    v2 = version is CgroupVersion.V2
    limit = Knob.MEMORY_MAX if v2 else Knob.MEMORY_LIMIT_IN_BYTES
    quota = Knob.CPU_MAX if v2 else Knob.CPU_CFS_QUOTA_US

    def number(cgroup, knob):
        value = cgroup.knobs[knob].value
        return value.quota if isinstance(value, CpuMax) else value.count

    held = {
        (knob, name): number(cgroup, knob)
        for knob in (limit, quota)
        for name, cgroup in (("", plan.before.pods[0].cgroup),
                             *((one_.name, one_.cgroup) for one_ in plan.before.pods[0].containers))
    }  # fmt: skip
    for step in plan.resizes[0].steps:
        for knob in (limit, quota):
            if knob in step.knobs and (step.container or step.kind is StepKind.POD_CGROUP):
                held[knob, step.container] = number(step, knob)
            assert sum(value for (what, name), value in held.items() if what is knob and name) <= held[knob, ""]
    wanted = {f"c{index}": pair[1] * MI for index, pair in enumerate(sizes)}
    assert {name: value for (what, name), value in held.items() if what is limit and name} == wanted
    assert held[limit, ""] == sum(wanted.values())


@pytest.mark.parametrize("release", ["1.36", "1.37"])
@given(sizes=st.lists(st.tuples(LIMITS, LIMITS), min_size=1, max_size=4))
@example(sizes=[(14, 13)])
def test_a_resized_pod_equals_a_new_one(release, sizes):
    # Except the pod's cpu.weight, which may keep its value: see the next test.
    def of(index):
        return pod(*(
            one(f"c{number}", (f"{pair[index]}0m", f"{pair[index]}0m"), ("512Ki", f"{pair[index]}Mi"))
            for number, pair in enumerate(sizes)
        ))  # fmt: skip

    resized, fresh = planned(of(0), of(1), release).after, planned(of(1), of(1), release).before
    pod_path = fresh.pods[0].cgroup.path
    values = [
        {
            (cgroup.path, knob): one_.value
            for cgroup in plan.cgroups()
            for knob, one_ in cgroup.knobs.items()
            if (cgroup.path, knob) != (pod_path, Knob.CPU_WEIGHT)
        }
        for plan in (resized, fresh)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("release", ["1.27", "1.36", "1.37"])
def test_a_weight_that_reads_as_the_desired_shares_is_not_written(release):
    """140m are 143 shares and weight 6, which reads back as 133 shares: those of 130m, whose weight would be 5."""
    old, new = (pod(one("a", (cpu, cpu), ("64Mi", "64Mi"))) for cpu in ("140m", "130m"))
    plan = planned(old, new, release)
    fresh = planned(new, new, release).before
    held = [one_.pods[0].cgroup.knobs[Knob.CPU_WEIGHT].value for one_ in (plan.before, plan.after, fresh)]
    assert held == [Number(6), Number(6), Number(5)]
