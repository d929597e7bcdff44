"""What a kubelet reports of memory and of CPU pressure in /stats/summary, /metrics/resource and /metrics/cadvisor."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = [
    "CADVISOR_METRICS",
    "RESOURCE_METRICS",
    "SUMMARY",
    "Report",
    "memory_in_metrics",
    "memory_in_summary",
    "metrics_of_cgroup",
    "pressure_in_metrics",
    "pressure_in_summary",
]

SUMMARY = "https://127.0.0.1:10250/stats/summary"
RESOURCE_METRICS = "https://127.0.0.1:10250/metrics/resource"
CADVISOR_METRICS = "https://127.0.0.1:10250/metrics/cadvisor"

_METRIC = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)(?: (?P<moment>\d+))?", re.MULTILINE)
"""Prometheus text: the moment is in milliseconds."""

_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Report(NamedTuple):
    """A total in ns, None if it is missing, and when the kubelet read it, in seconds of the epoch; 0 if unknown."""

    total: int | None
    moment: float


def memory_in_summary(summary: Mapping[str, object], uid: str, container: str, field: str) -> int | None:
    """A container's amount in /stats/summary: of memory, or of swap; None if it is missing."""
    pods = summary.get("pods")
    for pod in pods if isinstance(pods, list) else ():
        if pod["podRef"]["uid"] != uid:
            continue
        for one in pod.get("containers") or ():
            if one["name"] == container:
                part = one.get("swap" if field == "swapUsageBytes" else "memory") or {}
                value = part.get(field)
                return None if value is None else int(value)
    return None


def memory_in_metrics(text: str, name: str, namespace: str, pod: str, container: str) -> int | None:
    """A container's amount in /metrics/resource; None if it is missing."""
    for match in _METRIC.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        if match["name"] == name and (labels.get("namespace"), labels.get("pod"), labels.get("container")) == (
            namespace,
            pod,
            container,
        ):
            return int(float(match["value"]))
    return None


def pressure_in_summary(cpu: Mapping[str, Any], line: str) -> Report:
    """A total of a pod's CPU pressure in /stats/summary."""
    total = ((cpu.get("psi") or {}).get(line) or {}).get("total")
    moment = datetime.datetime.fromisoformat(cpu["time"]).timestamp() if cpu.get("time") else 0.0
    return Report(None if total is None else int(total), moment)


def metrics_of_cgroup(text: str, cgroup: str) -> dict[str, tuple[float, float]]:
    """A cgroup's metrics in /metrics/cadvisor by name: value, and moment in seconds of the epoch."""
    return {
        match["name"]: (float(match["value"]), int(match["moment"] or 0) / 1000)
        for match in _METRIC.finditer(text)
        if dict(_LABEL.findall(match["labels"])).get("id") == cgroup
    }


def pressure_in_metrics(rows: Mapping[str, tuple[float, float]], name: str) -> Report:
    """A total of seconds among a cgroup's metrics, in ns; without it the moment is that of the others."""
    if name in rows:
        seconds, moment = rows[name]
        return Report(round(seconds * 1e9), moment)
    return Report(None, max((moment for _, moment in rows.values()), default=0.0))
