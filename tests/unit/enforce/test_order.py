"""For any pods: cgroups are created after their ancestors, and removed before them."""

import pytest
from hypothesis import given

from memqos.enforce.steps import Action, steps, steps_between
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.model.node import CgroupDriver
from tests.unit.engine.anything import PODS, RELEASES
from tests.unit.engine.pods import NODE, ON


def parents_first(order):
    """Whether no cgroup comes before its ancestor."""
    return not any(later.path in step.path.ancestors for place, step in enumerate(order) for later in order[place:])


@pytest.mark.parametrize("driver", list(CgroupDriver))
@given(pods=PODS, release=RELEASES)
def test_parents_are_created_first_and_removed_last(driver, pods, release):
    full, empty = (
        expect(some, Kubelet.of(node=NODE, settings=ON, release=release, driver=driver), reasons=False)
        for some in (pods, [])
    )
    made = steps(full)
    assert parents_first(made)
    assert not parents_first(made[::-1])
    assert {one.path for one in made} == {one.path for one in full.cgroups() if not one.container}
    gone = [one for one in steps_between(full, empty) if one.action is Action.REMOVE]
    assert len(gone) == len(pods)
    assert parents_first(gone[::-1])
    there = [one for one in steps_between(empty, full) if one.action is Action.MAKE]
    assert len(there) == len(pods)
    assert parents_first(there)
