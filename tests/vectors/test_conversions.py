"""Conversions of CPU and swap amounts: tables of the kubelet, of runc, and of 1.37's master."""

import pytest

from memqos.engine.cgroup.cpu import (
    WeightConversion,
    milli_to_quota,
    milli_to_shares,
    shares_to_milli,
    shares_to_weight,
    systemd_quota,
    weight_to_shares,
)
from memqos.engine.translate.runc import swap_max_of
from memqos.model.knob import MAX, Bytes, Knob
from memqos.model.reading import read_back
from tests.vectors.reading import used
from tests.vectors.tables import table

RUNC = table("runc_conversions")
MASTER = table("v1_37_master_tests")


@pytest.mark.parametrize(("milli", "shares"), MASTER["MilliCPUToShares"])
def test_milli_to_shares(milli, shares):
    assert milli_to_shares(milli) == shares


@pytest.mark.parametrize(("shares", "milli"), MASTER["SharesToMilliCPU"])
def test_shares_to_milli(shares, milli):
    assert shares_to_milli(shares) == milli


@pytest.mark.parametrize(("milli", "period", "quota"), MASTER["MilliCPUToQuota"])
def test_milli_to_quota(milli, period, quota):
    assert milli_to_quota(milli, period) == quota


@pytest.mark.parametrize("row", table("cm_helpers_linux.v1.36.3")["tables"]["TestMilliCPUToQuota"])
def test_milli_to_quota_of_cm(row):
    assert milli_to_quota(row["input"], row["period"]) == row["quota"]


@pytest.mark.parametrize(
    "row",
    [row for rows in table("kuberuntime_helpers_linux.v1.33.13")["tables"].values() for row in rows],
    ids=lambda row: row["msg"],
)
def test_milli_to_quota_of_kuberuntime(row):
    assert milli_to_quota(row["input"], row["period"]) == row["expected"]


@pytest.mark.parametrize(("one", "other", "equal"), MASTER["CPUSharesEqualAfterV2RoundTrip"])
def test_weights_lose_shares(one, other, equal):
    assert (weight_to_shares(shares_to_weight(one)) == other) is equal


@pytest.mark.parametrize("row", RUNC["cpu_weight"], ids=lambda row: str(row["shares"]))
def test_shares_to_weight(row):
    assert shares_to_weight(row["shares"]) == row["kubelet"] == row["old_linear"]
    assert shares_to_weight(row["shares"], WeightConversion.QUADRATIC) == row["new"]


@pytest.mark.parametrize(("shares", "weight"), RUNC["upstream_table_new"])
def test_quadratic_weight(shares, weight):
    assert shares_to_weight(shares, WeightConversion.QUADRATIC) == weight


@pytest.mark.parametrize("row", table("cgroup_manager_linux.v1.34.9")["tables"]["TestCpuSharesToCPUWeight"])
def test_kubelet_weight(row):
    assert shares_to_weight(row["cpuShares"]) == row["expectedCpuWeight"]


@pytest.mark.parametrize(
    ("weight", "shares"),
    [
        *RUNC["cpu_weight_to_shares_kubelet"],
        *(
            (used(row)["cpuWeight"], row["expectedCpuShares"])
            for row in table("cgroup_manager_linux.v1.36.3")["tables"]["TestCpuWeightToCPUShares"]
        ),
    ],
)
def test_weight_to_shares(weight, shares):
    assert weight_to_shares(weight) == shares


@pytest.mark.parametrize("row", RUNC["memory_swap_v2"]["rows"], ids=lambda row: f"{row['memsw']},{row['mem']}")
def test_swap_max(row):
    if row.get("error"):
        with pytest.raises(ValueError, match="memory"):
            swap_max_of(row["memsw"], row["mem"])
        return
    found = swap_max_of(row["memsw"], row["mem"])
    # libcontainer's -1 is the word max; with its 0 for no swap limit the file is not written.
    expected = None if row["memsw"] == 0 and row["mem"] == 0 else MAX if row["out"] == -1 else Bytes(row["out"])
    assert found == expected


@pytest.mark.parametrize("row", table("kernel_readback")["rows"], ids=lambda row: f"{row['written']}-{row.get('page')}")
def test_kernel_read_back(row):
    written = MAX if row["written"] == "max" else Bytes(row["written"])
    assert str(read_back(Knob.MEMORY_HIGH, written, row.get("page", 4096))) == str(row["read"])


@pytest.mark.parametrize(
    ("quota", "period", "written"),
    [
        (33_300, 100_000, 34_000),
        (34_000, 100_000, 34_000),
        (1_000, 100_000, 1_000),
        (1_001, 100_000, 2_000),
        (-1, 100_000, -1),
        (0, 100_000, 0),
        (12_345, 50_000, 12_500),
    ],
)
def test_systemd_writes_whole_percents(quota, period, written):
    assert systemd_quota(quota, period) == written


@pytest.mark.parametrize("call", list(RUNC["checks"]))
def test_the_checks_of_both_conversions(call):
    kind, shares = call.removesuffix(")").split("(")
    conversion = {"wnew": WeightConversion.QUADRATIC, "wold": WeightConversion.LINEAR}[kind]
    assert shares_to_weight(int(shares), conversion) == RUNC["checks"][call]


def test_the_report_that_led_to_the_new_conversion():
    row = RUNC["upstream_issue_4896"]
    assert shares_to_weight(row["shares"], WeightConversion.LINEAR) == row["old"] == 77
    assert shares_to_weight(row["shares"], WeightConversion.QUADRATIC) == row["new"] == 170


# Upstream's nil is 0 here: no amount can be read back from it.
@pytest.mark.parametrize(("shares", "milli"), MASTER["CPURequestsFromConfig_shares_to_milli"])
def test_requests_read_back_from_shares(shares, milli):
    assert shares_to_milli(shares) == (milli or 0)
