"""The setter by the level of the cgroup, the request, and the file's value."""

import pytest

from memqos.engine.answer.finding import Setter, setter_of
from memqos.engine.plan import Expected, Level, Reason
from memqos.model.knob import ABSENT, MAX, Bytes, Knob
from memqos.model.path import CgroupPath

REASON = Reason(rule="it is so", revision="test 1", source="nowhere")
SLICE = CgroupPath.parse("/kubepods.slice/kubepods-podx.slice")
SCOPE = SLICE.child("cri-containerd-0a1b.scope")
PLAIN = CgroupPath.parse("/kubepods/podx")
ABOVE = (Level.NODE, Level.RESERVED, Level.QOS, Level.POD)
WRITTEN = Expected(knob=Knob.MEMORY_MAX, written=Bytes(4096), value=Bytes(4096), reason=REASON)


def left(knob, **changes):
    return Expected(knob=knob, written=ABSENT, value=MAX, reason=REASON, **changes)


def made(expected, level=Level.CONTAINER, path=SCOPE, **changes):
    return setter_of(expected, level, path, **{"enacted_by": Setter.MEMQOS, **changes})


def test_the_runtime_writes_containers_files_also_as_properties_of_their_scopes():
    assert made(WRITTEN) is Setter.RUNTIME
    assert made(WRITTEN, path=PLAIN.child("0a1b")) is Setter.RUNTIME


@pytest.mark.parametrize("level", ABOVE)
@pytest.mark.parametrize("enacted_by", [Setter.MEMQOS, Setter.KUBELET])
def test_the_enactor_writes_everything_above_containers(level, enacted_by):
    assert made(WRITTEN, level, SLICE, enacted_by=enacted_by) is enacted_by
    assert made(WRITTEN, level, PLAIN, enacted_by=enacted_by) is enacted_by


@pytest.mark.parametrize("level", list(Level))
def test_unrequested_values_are_systemds_in_a_unit_and_else_the_kernels(level):
    """systemd writes its own defaults for properties that a unit lacks; it does not know these files."""
    for path in (SLICE, SCOPE):
        assert made(left(Knob.MEMORY_HIGH), level, path) is Setter.SYSTEMD
        assert made(left(Knob.HUGETLB_2MB_MAX), level, path) is Setter.KERNEL
        assert made(left(Knob.CPUSET_MEMS), level, path) is Setter.KERNEL
    assert made(left(Knob.MEMORY_HIGH), level, PLAIN) is Setter.KERNEL
    # crun's cgroup below its scope is not a unit.
    assert made(left(Knob.MEMORY_HIGH), level, SCOPE.child("container")) is Setter.KERNEL


def test_a_deviating_container_is_set_by_its_runtime():
    assert made(WRITTEN, deviates=True) is Setter.RUNTIME
    assert made(left(Knob.MEMORY_HIGH), deviates=True) is Setter.RUNTIME


def test_a_value_that_memqos_did_not_write_is_never_called_its_own():
    assert made(WRITTEN, Level.POD, SLICE, deviates=True) is Setter.OTHER
    assert made(left(Knob.MEMORY_HIGH), Level.POD, SLICE, deviates=True) is Setter.OTHER
    assert made(WRITTEN, Level.POD, SLICE, enacted_by=Setter.KUBELET, deviates=True) is Setter.KUBELET


def test_with_differing_versions_the_runtime_is_the_setter():
    unsure = left(Knob.MEMORY_SWAP_MAX, undecided=(MAX, Bytes(0)))

    assert made(unsure) is Setter.RUNTIME
