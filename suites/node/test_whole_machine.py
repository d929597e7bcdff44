"""Node: who is killed when the whole machine has run out, and what a daemon of the machine keeps that is reserved for.

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

Who is killed is the model's word (`memqos.engine.cgroup.victims`), for the scores and the use at that time, and is
held to where the first is ahead by 8 Mi. What is protected of the daemon is that of protection, with the root as the
root of reclaim; what is protected whole may miss a batch of 64 pages (MEMCG_CHARGE_BATCH) that each CPU had charged
ahead for it. It reads all of its file for an answer, and has 20 s for it: nobody but a machine that stands still needs
them.
"""

import pytest

from memqos import Knob

SCORED = [Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
PREMISES = [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX]
RESERVED = "/memqossys.slice"


@pytest.fixture(scope="module")
def scarce_node(qos_node):
    """A machine with little memory that is free."""
    with qos_node.scarce():
        yield qos_node


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-none")
@pytest.mark.claim("node/machine-runs-out")
def test_who_uses_most_by_its_score_is_killed_when_the_machine_runs_out(
    scarce_node, qos_kubelet, qos_catalog, qos_evidence
):
    """A Burstable pod takes all that there is, and it is the one; no other pod, and nothing of the machine."""
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
    """Whether a daemon that memory may be reserved for keeps its own while a pod takes all it can, by the kubelet."""
    pods = [qos_catalog.pod(name) for name in ["unguarded", "neighbour"]]

    def pressed(kubelet):
        with (
            scarce_node.watched_pods(pods, kubelet, rests_on=PREMISES, steered=True) as watch,
            scarce_node.daemon(RESERVED) as daemon,
        ):
            lost = watch.press("neighbour", whole_node=True, besides=daemon.exposed)
            return lost, daemon.keeps_its_memory(), daemon.gives_way(), daemon.answers()

    return pressed


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("node/reserved-daemon-keeps-its-memory")
def test_a_reserved_daemon_keeps_its_memory_and_answers(beside, qos_kubelet, qos_evidence):
    """system-reserved is among what its kubelet enforces: the cgroup has a memory.min, and the daemon is below it."""
    pressure, keeps, _, answers = beside(qos_kubelet)

    qos_evidence.settle(*pressure.premises, keeps, pressure.gives_way("unguarded"), answers)


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.36-tiered")
@pytest.mark.claim("node/unenforced-daemon-makes-room")
def test_a_daemon_makes_room_where_its_reservation_is_not_enforced(beside, qos_kubelet, qos_evidence):
    """The same reservation is subtracted from what pods may have, and protects nobody."""
    pressure, _, gives_way, answers = beside(qos_kubelet.with_enforced("pods"))

    qos_evidence.settle(*pressure.premises, gives_way, answers)
