"""Edge cases of the conversions between CPUs, shares, weights and quotas beyond upstream's tables."""

from dataclasses import replace

import pytest

from memqos.engine.cgroup.cpu import int64, milli_to_shares, shares_to_weight, systemd_quota
from memqos.engine.cgroup.interface_files import cpu_limit
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import UNEXPLAINED
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver, CgroupVersion
from tests.unit.engine.pods import NODE, ON, container, pod


@pytest.mark.parametrize(("product", "kept"), [
    (0, 0),
    (-1, -1),
    (9_223_372_036_854_775_807, 9_223_372_036_854_775_807),
    (9_223_372_036_854_775_808, -9_223_372_036_854_775_808),
    (-9_223_372_036_854_775_809, 9_223_372_036_854_775_807),
])  # fmt: skip
def test_64_bits(product, kept):
    assert int64(product) == kept


def test_a_negative_amount_has_the_fewest_shares():
    assert [milli_to_shares(milli) for milli in (-1000, 0, 1, 2, 3)] == [2, 2, 2, 2, 3]


def test_linear_weights():
    """2176 * 9999 is 83 times 262142 and 38 more, so that a divisor one larger has one weight less."""
    assert [shares_to_weight(shares) for shares in (2177, 2178, 262_143, 262_144, 300_000)] == [
        83, 84, 9999, 10_000, 10_000,
    ]  # fmt: skip


@pytest.mark.parametrize(("quota", "period", "written"), [
    (-1, 100_000, -1),
    (0, 100_000, 0),
    (1, 100_000, 1000),
    # 1000 µs of 99999 are within a tenth of a µs per second of a whole percent: not 999.
    (1000, 99_999, 1000),
    (1001, 99_999, 1999),
])  # fmt: skip
def test_the_systemd_driver_rounds_up_to_whole_percents(quota, period, written):
    assert systemd_quota(quota, period) == written


@pytest.mark.parametrize(("quota", "period", "on_v2", "on_v1"), [
    (25_000, 50_000, "25000 50000", ("25000", "50000")),
    (1, 0, "1 100000", ("1", "absent")),
    (0, 50_000, "max 50000", ("absent", "50000")),
    (-1, 0, "max 100000", ("-1", "absent")),
])  # fmt: skip
def test_a_cpu_limit_in_the_files_of_both_versions(quota, period, on_v2, on_v1):
    [one] = cpu_limit(CgroupVersion.V2, quota, period, lambda: UNEXPLAINED).values()
    assert str(one.written) == on_v2
    found = cpu_limit(CgroupVersion.V1, quota, period, lambda: UNEXPLAINED)
    assert {knob: str(one.written) for knob, one in found.items()} == dict(
        zip((Knob.CPU_CFS_QUOTA_US, Knob.CPU_CFS_PERIOD_US), on_v1, strict=True)
    )


def test_systemd_may_have_rounded_a_pods_quota_where_the_kubelet_did_not():
    """6612m are 661.2 percents. Up to 1.33 the kubelet writes them, and systemd 662 when a first scope starts below."""
    pods = [pod(container(limits={"cpu": "6612m"}))]

    def shown(release, driver):
        kubelet = Kubelet.of(node=NODE, settings=ON, release=release, driver=driver)
        return expect(pods, kubelet).pods[0].cgroup.knobs[Knob.CPU_MAX]

    old = shown("1.33", CgroupDriver.SYSTEMD)
    assert (str(old.written), old.shown) == ("661200 100000", "661200 100000 or 662000 100000")
    assert "systemd writes its own, rounded up to whole percents" in old.unsettled
    for release, driver, value in (
        ("1.33", CgroupDriver.CGROUPFS, "661200 100000"),
        ("1.34", CgroupDriver.SYSTEMD, "662000 100000"),
    ):
        settled = shown(release, driver)
        assert (settled.shown, settled.unsettled) == (value, "")


def test_on_cgroup_v1_the_quota_alone_may_be_rounded():
    node = replace(NODE, cgroup_version=CgroupVersion.V1)
    kubelet = Kubelet.of(node=node, settings=ON, release="1.30", driver=CgroupDriver.SYSTEMD)
    knobs = expect([pod(container(limits={"cpu": "6612m"}))], kubelet).pods[0].cgroup.knobs
    assert knobs[Knob.CPU_CFS_QUOTA_US].shown == "661200 or 662000"
    assert knobs[Knob.CPU_CFS_PERIOD_US].shown == "100000"
    assert knobs[Knob.CPU_CFS_PERIOD_US].unsettled == ""
