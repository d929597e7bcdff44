"""CPU amounts: milli CPUs to shares and quota, shares to cgroup v2 weight.

Sources: kubelet `cm.MilliCPUToShares`, `cm.MilliCPUToQuota`, `cm.getCPUWeight`; opencontainers/cgroups
`ConvertCPUSharesToCgroupV2Value` (two revisions) and systemd's `addCPUQuota`. All divisions are Go's: toward zero.
"""

from __future__ import annotations

import math
from enum import StrEnum
from functools import lru_cache

__all__ = [
    "DEFAULT_PERIOD",
    "MAX_SHARES",
    "MIN_SHARES",
    "WeightConversion",
    "int64",
    "milli_to_quota",
    "milli_to_shares",
    "quota_per_second",
    "quotient",
    "shares_to_milli",
    "shares_to_weight",
    "systemd_quota",
    "weight_to_shares",
]

MIN_SHARES = 2
MAX_SHARES = 262_144
DEFAULT_PERIOD = 100_000
_MIN_QUOTA = 1_000
_SHARES_PER_CPU = 1_024
_SYSTEMD_STEP = 10_000


class WeightConversion(StrEnum):
    """The conversion of cpu.shares to cpu.weight in an OCI runtime.

    LINEAR: runc up to 1.3.1 and crun up to 1.22; QUADRATIC: runc from 1.3.2 and crun from 1.23.
    """

    LINEAR = "linear"
    QUADRATIC = "quadratic"


def quotient(dividend: int, divisor: int) -> int:
    """Go's integer division: truncated toward zero."""
    if (dividend < 0) == (divisor < 0):
        return dividend // divisor
    return -(abs(dividend) // abs(divisor))


def int64(product: int) -> int:
    """A product wrapped to 64 bits signed: 10 PiB of memory times 1000 turns negative, as in Go."""
    return (product + (1 << 63)) % (1 << 64) - (1 << 63)


# A node has few different amounts, and each occurs many times.
@lru_cache(maxsize=1024)
def milli_to_shares(milli: int) -> int:
    """cpu.shares for an amount in milli CPUs: 2 for nothing, at least 2, at most 262144."""
    if milli <= 0:
        return MIN_SHARES
    return max(MIN_SHARES, min(quotient(int64(milli * _SHARES_PER_CPU), 1000), MAX_SHARES))


def shares_to_milli(shares: int) -> int:
    """The milli CPUs of shares, rounded up; 0 below the minimum of 2."""
    return 0 if shares < MIN_SHARES else -(-shares * 1000 // _SHARES_PER_CPU)


@lru_cache(maxsize=1024)
def milli_to_quota(milli: int, period: int) -> int:
    """CFS quota in µs per `period` µs: 0 for nothing (not set), else at least 1000."""
    return 0 if milli == 0 else max(quotient(int64(milli * period), 1000), _MIN_QUOTA)


@lru_cache(maxsize=1024)
def shares_to_weight(shares: int, conversion: WeightConversion = WeightConversion.LINEAR) -> int:
    """cpu.weight (1 to 10000) for cpu.shares; 0 stays 0 and means "not set".

    The kubelet's own cgroups are LINEAR in every release; containers follow their OCI runtime.
    """
    if shares == 0:
        return 0
    if shares >= MAX_SHARES:
        return 10_000
    if conversion is WeightConversion.LINEAR:
        return 1 + quotient((shares - MIN_SHARES) * 9_999, 262_142)
    if shares <= MIN_SHARES:
        return 1
    exponent = math.log2(shares)
    return math.ceil(math.pow(10, (exponent * exponent + 125 * exponent) / 612.0 - 7.0 / 34.0))


def weight_to_shares(weight: int) -> int:
    """The kubelet's inverse of the linear conversion; not exact, since many shares have the same weight."""
    return quotient((weight - 1) * 262_142, 9_999) + MIN_SHARES


def systemd_quota(quota: int, period: int) -> int:
    """The quota of a driver that rounds like systemd: up to a whole percent of one CPU.

    Only a positive quota is rounded. One within a fraction of a µs per second of a whole percent stays. Source:
    opencontainers/cgroups from 0.0.2, `addCPUQuota`.
    """
    if quota <= 0:
        return quota
    rounded = quota_per_second(quota, period)
    if rounded == quotient(quota * 1_000_000, period):
        return quota
    return quotient(rounded * period, 1_000_000)


@lru_cache(maxsize=1024)
def quota_per_second(quota: int, period: int) -> int:
    """A positive quota as systemd's CPUQuotaPerSecUSec: µs per second, a whole percent of one CPU, rounded up."""
    return -(-quotient(quota * 1_000_000, period) // _SYSTEMD_STEP) * _SYSTEMD_STEP
