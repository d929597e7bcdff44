"""What only one who speaks CRI can ask: sandboxes, containers that do not run, status, stats, and who is told of kills.

Stats are held against the kernel's files, which are read before and after the runtime is asked: a right answer lies
between the two, or beyond them by no more than 64 pages for each CPU, which the kernel charges ahead.
"""

import pytest


@pytest.fixture(scope="module")
def executed(qos_conversation):
    """A program that ExecSync starts in a container with an oom_score_adj."""
    return qos_conversation.executed()


@pytest.mark.claim("cri/sandbox-in-its-parent")
def test_sandbox_in_its_parent(qos_conversation, qos_evidence):
    """The sandbox that RunPodSandbox makes has its cgroup directly below cgroup_parent."""
    qos_evidence.settle(qos_conversation.sandbox_in_its_parent())


@pytest.mark.claim("cri/sandbox-has-no-limits")
def test_sandbox_has_no_limits(qos_conversation, qos_evidence):
    """The cgroup of a sandbox's own process has no memory limit and no protection, whatever the pod has."""
    qos_evidence.settle(qos_conversation.sandbox_as_it_comes())


@pytest.mark.claim("cri/sandbox-changes-nothing")
def test_sandbox_changes_nothing(qos_conversation, qos_evidence):
    """RunPodSandbox writes nothing into the pod's cgroup, and its removal leaves nothing there."""
    qos_evidence.settle(qos_conversation.sandbox_beside())


@pytest.mark.claim("cri/update-sandbox-writes-nothing")
def test_update_sandbox_writes_nothing(qos_conversation, qos_evidence):
    """UpdatePodSandboxResources writes no control file: the pod's cgroup is the kubelet's."""
    qos_evidence.settle(qos_conversation.sandbox_updated())


@pytest.mark.claim("cri/runtime-config-driver")
def test_runtime_config_driver(qos_conversation, qos_evidence):
    """RuntimeConfig names the cgroup driver by which containers are made."""
    qos_evidence.settle(qos_conversation.driver())


@pytest.mark.claim("cri/update-created")
def test_update_created(qos_conversation, qos_catalog, qos_evidence):
    """An update of a container that was created and not started holds once it runs."""
    qos_evidence.settle(qos_conversation.created_and_updated(qos_catalog.request("update-twice")))


@pytest.mark.claim("cri/update-created-everything")
def test_update_created_everything(qos_conversation, qos_catalog, qos_evidence):
    """An update of every field of a container that was not started holds once it runs."""
    qos_evidence.settle(qos_conversation.created_and_updated(qos_catalog.request("update-everything")))


@pytest.mark.claim("cri/update-ended")
def test_update_ended(qos_conversation, qos_catalog, qos_evidence):
    """An update of a container that has ended is answered, makes no cgroup, and changes nothing beside it."""
    qos_evidence.settle(qos_conversation.ended_and_updated(qos_catalog.request("update-unified-high")))


@pytest.mark.claim("cri/status-says-created")
def test_status_says_created(qos_conversation, qos_catalog, qos_evidence):
    """ContainerStatus has every field of the resources that a container was created with."""
    qos_evidence.settle(qos_conversation.says_what_was_asked(qos_catalog.request("everything")))


@pytest.mark.claim("cri/status-says-updated")
def test_status_says_updated(qos_conversation, qos_catalog, qos_evidence):
    """ContainerStatus has the fields of an update, and those of earlier requests that it did not name."""
    qos_evidence.settle(qos_conversation.says_what_was_asked(qos_catalog.request("update-twice")))


@pytest.mark.claim("cri/status-says-everything")
def test_status_says_everything(qos_conversation, qos_catalog, qos_evidence):
    """ContainerStatus has every field of an update that named them all."""
    qos_evidence.settle(qos_conversation.says_what_was_asked(qos_catalog.request("update-everything")))


@pytest.mark.claim("cri/status-forgets-refused")
def test_status_forgets_refused(qos_conversation, qos_catalog, qos_evidence):
    """ContainerStatus says nothing of an update that was refused."""
    qos_evidence.settle(qos_conversation.says_what_was_asked(qos_catalog.request("update-refuses-no-number")))


@pytest.mark.claim("cri/stats-usage")
def test_stats_usage(qos_conversation, qos_evidence):
    """ContainerStats says as usage what memory.current says."""
    qos_evidence.settle(qos_conversation.uses("usage", "working set", "rss", "available"))


@pytest.mark.claim("cri/stats-page-faults")
def test_stats_page_faults(qos_conversation, qos_evidence):
    """ContainerStats counts page faults as memory.stat does."""
    qos_evidence.settle(qos_conversation.uses("page faults"))


@pytest.mark.claim("cri/stats-major-page-faults")
def test_stats_major_page_faults(qos_conversation, qos_evidence):
    """ContainerStats counts major page faults as memory.stat does."""
    qos_evidence.settle(qos_conversation.uses("major page faults"))


@pytest.mark.claim("cri/stats-swap")
def test_stats_swap(qos_conversation, qos_evidence):
    """ContainerStats says as swap in use what memory.swap.current says."""
    qos_evidence.settle(qos_conversation.uses("swap"))


@pytest.mark.claim("cri/stats-pressure")
def test_stats_pressure(qos_conversation, qos_evidence):
    """ContainerStats says as time lost to memory what memory.pressure says."""
    qos_evidence.settle(qos_conversation.uses("pressure"))


@pytest.mark.behaviour
@pytest.mark.claim("cri/stats-under-load")
def test_stats_under_load(qos_conversation, qos_evidence):
    """ContainerStats keeps up with a container that takes more and more memory."""
    qos_evidence.settle(qos_conversation.uses_under_load("usage", "working set", "available"))


@pytest.mark.claim("cri/pod-stats")
def test_pod_stats(qos_conversation, qos_evidence):
    """PodSandboxStats says of the pod what its cgroup's files say."""
    qos_evidence.settle(qos_conversation.pod_uses("usage", "working set", "rss"))


@pytest.mark.claim("cri/pod-stats-page-faults")
def test_pod_stats_page_faults(qos_conversation, qos_evidence):
    """PodSandboxStats counts page faults as the pod's memory.stat does."""
    qos_evidence.settle(qos_conversation.pod_uses("page faults", "major page faults"))


@pytest.mark.behaviour
@pytest.mark.claim("cri/oom-killed-is-told")
def test_oom_killed_is_told(qos_conversation, qos_evidence):
    """A container that the kernel killed for its memory limit ended with 137, and the reason is OOMKilled."""
    qos_evidence.settle(qos_conversation.hog_is_told())


@pytest.mark.behaviour
@pytest.mark.claim("cri/exec-is-charged")
def test_exec_is_charged(executed, qos_evidence):
    """What a program uses that ExecSync started is charged to the container."""
    qos_evidence.settle(executed.charged)


@pytest.mark.behaviour
@pytest.mark.claim("cri/exec-is-alike")
def test_exec_is_alike(executed, qos_evidence):
    """A program by ExecSync runs in the container's cgroup, with the container's oom_score_adj."""
    qos_evidence.settle(executed.alike)


@pytest.mark.behaviour
@pytest.mark.claim("cri/exec-is-bound")
def test_exec_is_bound(qos_conversation, qos_evidence):
    """A program by ExecSync that takes more than the limit is killed alone."""
    qos_evidence.settle(qos_conversation.exec_is_bound())


@pytest.mark.behaviour
@pytest.mark.claim("cri/oom-group-kills-all")
def test_oom_group_kills_all(qos_conversation, qos_evidence):
    """With memory.oom.group a program that takes more than the limit takes all of the container with it."""
    qos_evidence.settle(qos_conversation.group_is_killed())


@pytest.mark.behaviour
@pytest.mark.claim("cri/update-below-use")
def test_update_below_use(qos_conversation, qos_evidence):
    """An update below what a container uses is refused and changes nothing, or carried out and the kill told."""
    qos_evidence.settle(qos_conversation.limited_below_use())
