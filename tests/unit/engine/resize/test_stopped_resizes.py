"""Limits below the current usage stop a resize."""

import pytest

from memqos.engine.resize import ResizeOutcome, Usage
from tests.unit.engine.pods import container, pod
from tests.unit.engine.resize.plans import GROWN, MI, OLD, RESTART, one, planned

DECREASE = "cannot decrease memory limits: "


@pytest.mark.parametrize(("release", "used", "message"), [
    ("1.31", Usage(pod=200 * MI), "aborting attempt to set pod memory limit less than current memory usage for pod p"),
    ("1.33", Usage(pod=200 * MI),
     'aborting attempt to set pod memory limit less than current memory usage for pod "p_default(uid-p)"'),
    ("1.31", Usage(pod=200 * MI - 1), ""),
    ("1.34", Usage(), ""),
    ("1.34", Usage(pod=200 * MI, containers={"a": 1}),
     "cannot decrease memory limits: attempting to set pod memory limit (209715200) below current usage (209715200)"),
    ("1.36", Usage(pod=200 * MI - 1, containers={"a": 72 * MI}),
     DECREASE + 'attempting to set container "a" memory limit (75497472) below current usage (209715199)'),
    ("1.36", Usage(containers={"a": 72 * MI}),
     DECREASE + 'attempting to set container "a" memory limit (75497472) below current usage (75497472)'),
    ("1.36", Usage(pod=300 * MI, containers={"a": 300 * MI}),
     DECREASE + "[attempting to set pod memory limit (209715200) below current usage (314572800), "
     + 'attempting to set container "a" memory limit (75497472) below current usage (314572800)]'),
    ("1.36", Usage(pod=100 * MI, containers={"b": 300 * MI}), ""),
])  # fmt: skip
def test_limits_below_usage(release, used, message):
    policy = {"memory": RESTART} if release == "1.33" else {}
    old = pod(one("a", ("1", "1"), ("64Mi", "128Mi"), resize_policy=policy), OLD.containers[1])
    new = pod(one("a", ("1", "1"), ("64Mi", "72Mi"), resize_policy=policy), OLD.containers[1])
    found = planned(old, new, release, usage={"uid-p": used}).resizes[0]
    assert (found.message, found.outcome) == (
        message, ResizeOutcome.ERROR if message else ResizeOutcome.IN_PROGRESS
    )  # fmt: skip
    assert bool(found.steps) is not bool(message)


def test_the_check_of_old_releases_also_stops_a_growing_limit():
    found = planned(OLD, GROWN, "1.32", usage={"uid-p": Usage(pod=500 * MI)}).resizes[0]
    assert found.outcome is ResizeOutcome.ERROR
    assert planned(OLD, GROWN, "1.34", usage={"uid-p": Usage(pod=500 * MI)}).resizes[0].message == ""


def test_a_cpu_resize_is_not_checked_against_memory():
    new = pod(one("a", ("50m", "100m"), ("64Mi", "128Mi")), OLD.containers[1])
    found = planned(OLD, new, "1.36", usage={"uid-p": Usage(pod=999 * MI)}).resizes[0]
    assert found.outcome is ResizeOutcome.IN_PROGRESS


def test_an_added_limit_counts_as_lower_for_its_container():
    request = {"cpu": "1", "memory": "64Mi"}
    old, new = pod(container(request, {"cpu": "2"})), pod(container(request, {"cpu": "2", "memory": "128Mi"}))
    found = planned(old, new, "1.36", usage={"uid-p": Usage(pod=200 * MI, containers={"c": 200 * MI})}).resizes[0]
    assert found.message == (
        'cannot decrease memory limits: attempting to set container "c" memory limit (134217728) below current usage '
        "(209715200)"
    )
