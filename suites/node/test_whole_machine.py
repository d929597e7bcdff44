"""Node: which pod is killed when the whole machine runs out, and whether a reservation protects a host daemon.

    cgroup                   protection         oom_score_adj           before             then
    the machine              none                                       448 Mi free
    system.slice, others     all that they use
    kubepods, no shortage
      pod holds-guaranteed   by the revision    -997                    48 Mi anonymous
      pod holds-little       nothing            1000                    32 Mi anonymous
      pod greedy-burstable   by the revision    below 1000              nothing            what is left, and 256 Mi

    memqossys, reserved      100 Mi memory.min
                             or nothing
      the daemon             nothing of its own                         48 Mi of cache
    kubepods, no shortage
      pod unguarded          nothing                                    48 Mi of cache
      pod neighbour          nothing                                    nothing            what is left, and half of
                                                                                           what pods can lose; all of
                                                                                           it, and half of the
                                                                                           daemon's, where nothing
                                                                                           protects that

The model (`memqos.engine.cgroup.victims`) predicts the victim from scores and usage at that time; the prediction is
judged if the first victim is ahead by 8 Mi. The daemon's effective protection is computed with the root cgroup as the
root of reclaim. A fully protected cgroup may lose the batch of 64 pages (MEMCG_CHARGE_BATCH) that each CPU charged
ahead for it. To answer, the daemon reads its whole file within 20 s; only a machine that hangs needs longer.
"""

import pytest

from memqos import Knob

SCORED = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
RESERVED = "/memqossys.slice"


@pytest.fixture(scope="module")
def scarce_node(qos_node):
    """A machine with little free memory."""
    with qos_node.scarce():
        yield qos_node


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/machine-runs-out")
def test_the_highest_score_is_killed_when_the_machine_runs_out(scarce_node, qos_kubelet, qos_catalog, qos_evidence):
    """A Burstable pod takes all memory and is killed; no other pod and no host process is."""
    pods = [qos_catalog.pod(name) for name in ["holds-guaranteed", "holds-little", "greedy-burstable"]]
    with scarce_node.watched_pods(pods, qos_kubelet, rests_on=SCORED, steered=True) as watch:
        ends = watch.exhaust("greedy-burstable", whole_node=True)

    qos_evidence.settle(
        *ends.premises,
        ends.is_killed("greedy-burstable"),
        ends.is_spared("holds-little"),
        ends.is_spared("holds-guaranteed"),
        ends.still_runs("holds-little"),
        ends.still_runs("holds-guaranteed"),
    )


@pytest.fixture
def beside(scarce_node, qos_catalog):
    """By kubelet: whether the daemon keeps its memory while a pod takes all it can."""
    pods = [qos_catalog.pod(name) for name in ["unguarded", "neighbour"]]

    def pressed(kubelet):
        with (
            scarce_node.watched_pods(pods, kubelet, rests_on=PREMISES, steered=True) as watch,
            scarce_node.daemon(RESERVED) as daemon,
        ):
            lost = watch.press("neighbour", whole_node=True, outside_pods=daemon.exposed)
            return lost, daemon.keeps_its_memory(), daemon.gives_way(), daemon.answers()

    return pressed


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("node/reserved-daemon-keeps-its-memory")
def test_a_reserved_daemon_keeps_its_memory_and_answers(beside, qos_kubelet, qos_evidence):
    """The kubelet enforces system-reserved: the daemon's parent cgroup has a memory.min."""
    pressure, keeps, _, answers = beside(qos_kubelet)

    qos_evidence.settle(*pressure.premises, keeps, pressure.gives_way("unguarded"), answers)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("node/unenforced-daemon-makes-room")
def test_a_daemon_without_enforced_reservation_loses_memory(beside, qos_kubelet, qos_evidence):
    """The reservation is subtracted from allocatable, but protects no cgroup."""
    pressure, _, gives_way, answers = beside(qos_kubelet.with_enforced("pods"))

    qos_evidence.settle(*pressure.premises, gives_way, answers)
