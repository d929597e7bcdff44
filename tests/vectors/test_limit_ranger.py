"""Upstream's table of the plugin LimitRanger: pods that satisfy a LimitRange of one item."""

import pytest

from memqos.engine.admission.plugins import check_limits, with_limit_range_defaults
from memqos.engine.kubelet import Kubelet
from memqos.model.cluster import LimitRange, LimitRangeItem, LimitType
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Container, ContainerKind, Pod, Resources
from memqos.model.quantity import Quantity
from tests.vectors.tables import table

TABLE = table("limit_ranger")
NODE = NodeFacts(memory=8 << 30)


def amounts(given):
    return {name: Quantity.parse(text) for name, text in (given or {}).items()}


def resources(given):
    return Resources(requests=amounts(given.get("requests")), limits=amounts(given.get("limits")))


def containers(rows, kind, name):
    return tuple(
        Container(name=f"{name}-{number}", kind=kind, resources=resources(row)) for number, row in enumerate(rows)
    )


def pod(row):
    return Pod(
        name=row["name"],
        uid="u",
        containers=containers(row["containers"], ContainerKind.APP, "foo"),
        init_containers=(
            *containers(row.get("init", ()), ContainerKind.INIT, "init"),
            *containers(row.get("sidecars", ()), ContainerKind.SIDECAR, "sidecar"),
        ),
        resources=resources(row["pod"]) if "pod" in row else None,
    )


def denial(row, release="1.36"):
    item = LimitRangeItem(
        type=LimitType(row["limit"]["type"]),
        min=amounts(row["limit"].get("min")),
        max=amounts(row["limit"].get("max")),
        max_limit_request_ratio=amounts(row["limit"].get("maxLimitRequestRatio")),
    )
    ranges = [LimitRange(name="abc", namespace="default", limits=(item,))]
    gates = {"PodLevelResources": row.get("pod_level", False)}
    kubelet = Kubelet.of(node=NODE, release=release, settings=KubeletSettings(feature_gates=gates))
    return check_limits(with_limit_range_defaults(pod(row), ranges), ranges, kubelet)


@pytest.mark.parametrize("row", TABLE["accepted"], ids=lambda row: row["name"])
def test_accepted(row):
    assert denial(row) is None


@pytest.mark.parametrize("row", TABLE["refused"], ids=lambda row: row["name"])
def test_refused(row):
    assert denial(row).message.startswith(f'pods "{row["name"]}" is forbidden: ')


def test_the_table_is_whole():
    assert (len(TABLE["accepted"]), len(TABLE["refused"])) == (40, 45)
