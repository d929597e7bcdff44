"""Any pods, releases and configurations, for properties that hold for all of them."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from memqos.engine.releases.release import Variant
from memqos.model.node import ReservationPolicy
from memqos.model.pod import ContainerKind, Pod
from tests.unit.engine.pods import amounts, container

# Any pods: cheap to make, far from what a person would write.
BYTES = st.integers(0, 64 << 30)
MILLIS = st.integers(0, 8000)


@st.composite
def any_container(draw, index=0):
    limit = draw(st.none() | BYTES)
    request = draw(st.none() | st.just(limit) | st.integers(0, limit if limit is not None else 64 << 30))
    cpu = draw(st.none() | MILLIS)
    lists = {"memory": request}, {"memory": limit}
    if cpu is not None:
        lists[1]["cpu"] = f"{cpu}m"
    requests, limits = ({name: text for name, text in one.items() if text is not None} for one in lists)
    return container(requests, limits, name=f"c{index}")


@st.composite
def guaranteed_container(draw, index=0):
    own = {"memory": draw(st.integers(1, 64 << 30)), "cpu": f"{draw(st.integers(1, 8000))}m"}
    return container(own, own, name=f"c{index}")


@st.composite
def any_pod(draw, index=0):
    one = draw(st.sampled_from((any_container, any_container, guaranteed_container)))
    containers = [draw(one(number)) for number in range(draw(st.integers(1, 3)))]
    init = [
        replace(draw(one(number)), kind=draw(st.sampled_from((ContainerKind.INIT, ContainerKind.SIDECAR))))
        for number in range(10, 10 + draw(st.integers(0, 2)))
    ]
    overhead = amounts({"memory": draw(BYTES)}) if draw(st.booleans()) else {}
    return Pod(
        name=f"p{index}", uid=f"u{index}", containers=tuple(containers), init_containers=tuple(init), overhead=overhead
    )


PODS = st.integers(1, 3).flatmap(lambda count: st.tuples(*(any_pod(index) for index in range(count))))
RELEASES = st.sampled_from([f"1.{minor}" for minor in range(22, 38)])
FACTORS = st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=100)
POLICIES = st.sampled_from([None, *ReservationPolicy])
VARIANTS = st.sampled_from(Variant)
