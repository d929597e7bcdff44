"""Swap: host daemons that are swapped out while pods may not swap.

    cgroup                   memory.swap.max   before                    then
    the machine              none              448 Mi free
    system.slice, others     none              all that they use is protected
    memqosdaemon             max
      the daemon             max               64 Mi in a file on a tmpfs
    kubepods, no shortage
      pod holds-little       0                 32 Mi anonymous
      pod holds-guaranteed   0                 48 Mi anonymous
      pod neighbour          0                 nothing                   what is left, and a quarter of
                                                                         what the daemon has

From 1.30 on a kubelet without swapBehavior lets no pod swap (NoSwap), and does not touch the machine's own services.
The pods' memory cannot be reclaimed, so the shortage is taken from the daemon; where a runtime lets a pod swap, it need
not be. The machine's free memory is an estimate (`memqos.node.machine.shortage`): in runs the daemon lost between 7 MiB
less and 41 MiB more than the intended shortage. Of 16 MiB some are short in any case, and the daemon has four times as
much. Once the shortage was 48 MiB larger: all of the daemon went to swap, and the kernel had to kill, which is not
observable. "Nothing" has no tolerance; the daemon has more in swap than one batch of 64 pages.
"""

import pytest

from memqos import Knob

PODS = ["holds-little", "holds-guaranteed", "neighbour"]


@pytest.mark.behaviour
@pytest.mark.kubelet("v1.30-unset-swap")
@pytest.mark.claim("swap/daemons-swap-beside-pods")
def test_a_daemon_is_swapped_and_pods_are_not(qos_node, qos_kubelet, qos_catalog, qos_evidence):
    """The machine runs short as a whole; no pod has memory in swap, and none is killed."""
    pods = [qos_catalog.pod(name) for name in PODS]
    with (
        qos_node.scarce(),
        qos_node.watched_pods(pods, qos_kubelet, rests_on=[Knob.MEMORY_SWAP_MAX], steered=True) as watch,
        qos_node.daemon("/memqosdaemon.slice", shared=True) as daemon,
    ):
        pressure = watch.press("neighbour", whole_node=True, short=daemon.quarter)
        swaps, spent = daemon.swaps(why_not=pressure.broken), daemon.spent

    qos_evidence.settle(
        *pressure.premises,
        swaps,
        *(pressure.swaps_nothing(name) for name in PODS),
        *(pressure.still_runs(name, spent=spent) for name in PODS),
    )
