"""Running pods under a real kubelet: what its restart changes, which foreign writes it repairs, and what it reports.

    guaranteed-one, burstable, best-effort    one pod of each QoS class

They are started once, since everything here must leave them as they are. The kubelet in the machine has made all that
is judged here, so every finding above containers is about it.
"""

import pytest

pytestmark = pytest.mark.more
PODS = ["guaranteed-one", "burstable", "best-effort"]


@pytest.fixture(scope="module")
def pods(qos_node, qos_scene, qos_kubelet, qos_catalog):
    """The pods on the node, and read."""
    with qos_scene(qos_kubelet), qos_node.admitted(list(map(qos_catalog.pod, PODS)), qos_kubelet) as population:
        yield population


@pytest.fixture(scope="module")
def restart(qos_node, qos_kubelet, pods):
    """The same pods, read again after a restart of the kubelet, and the watch over the levels above during it."""
    with qos_node.kubelet_verbs(pods).protection_watched() as watch:
        return qos_node.restart_kubelet(pods, qos_kubelet), watch


@pytest.fixture(scope="module")
def restarted(restart):
    """The same pods, read again after a restart of the kubelet."""
    population, _ = restart
    return population


@pytest.mark.claim("kubelet/restart-changes-nothing")
def test_restart_changes_nothing(restarted, qos_evidence):
    """Every file of every level is as planned after a restart."""
    qos_evidence.settle(restarted.judge_all())


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/restart-keeps-protection")
def test_restart_keeps_the_protection_above_pods(restart, qos_evidence):
    """memory.min and memory.low of kubepods and the classes have their planned values during the restart."""
    _, watch = restart

    qos_evidence.settle(watch.stays())


@pytest.mark.claim("kubelet/restart-keeps-containers")
def test_restart_keeps_containers(qos_node, restarted, qos_evidence):
    """The containers that the kubelet reports after a restart are those from before."""
    qos_evidence.settle(qos_node.kubelet_verbs(restarted).still_runs())


@pytest.mark.claim("kubelet/daemon-reload")
def test_daemon_reload_changes_nothing(qos_node, pods, qos_evidence):
    """Every file of every level is as planned after systemctl daemon-reload."""
    qos_evidence.settle(qos_node.daemon_reloaded(pods).judge_all())


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/reports-pressure")
def test_reported_pressure_is_the_kernel_s(qos_node, pods, qos_evidence):
    """/stats/summary and /metrics/cadvisor agree with cpu.pressure, each in its unit."""
    qos_evidence.settle(qos_node.kubelet_verbs(pods).reports.pressure())


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/repairs-classes")
def test_foreign_writes_to_classes_are_repaired(qos_node, pods, qos_evidence):
    """Within a few periods the classes hold their sums again."""
    qos_evidence.settle(qos_node.kubelet_verbs(pods).repairs_classes())


@pytest.mark.behaviour
@pytest.mark.claim("kubelet/never-repairs-pods")
def test_foreign_writes_to_pods_stay(qos_node, pods, qos_evidence):
    """A period after the writes, the pods hold the foreign values."""
    qos_evidence.settle(qos_node.kubelet_verbs(pods).never_repairs_pods())
