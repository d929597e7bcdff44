"""What a container lives through: every value holds, and whoever goes leaves nothing behind."""

import pytest


@pytest.fixture(scope="module")
def reloaded(qos_life, qos_together):
    """Containers through one systemctl daemon-reload."""
    requests = {
        "daemon-reload": "update-refuses-no-number",
        "daemon-reload-no-swap": "no-swap",
        "daemon-reload-unified-no-swap": "unified-no-swap",
        "daemon-reload-oom-group": "unified-oom-group",
    }
    return qos_together(qos_life.systemd_reloaded, requests)


@pytest.fixture(scope="module")
def replaced(qos_life, qos_together):
    """A container through one systemctl daemon-reexec."""
    return qos_together(qos_life.systemd_replaced, {"daemon-reexec": "update-refuses-no-number"})


@pytest.fixture(scope="module")
def restarted(qos_life, qos_together):
    """Containers through one restart of the runtime's daemon."""
    requests = {"runtime-restart": "everything", "update-after-runtime-restart": "update-unified-high"}
    return qos_together(qos_life.daemon_restarted, requests)


@pytest.mark.claim("lifecycle/daemon-reload")
def test_daemon_reload(reloaded, qos_evidence):
    """Every value of a container holds after systemctl daemon-reload."""
    qos_evidence.settle(reloaded("daemon-reload"))


@pytest.mark.claim("lifecycle/daemon-reload-no-swap")
def test_daemon_reload_no_swap(reloaded, qos_evidence):
    """A container without swap, by its limit of memory and swap, has none after systemctl daemon-reload either."""
    qos_evidence.settle(reloaded("daemon-reload-no-swap"))


@pytest.mark.claim("lifecycle/daemon-reload-unified-no-swap")
def test_daemon_reload_unified_no_swap(reloaded, qos_evidence):
    """A container without swap, as the kubelet asks by unified, has none after systemctl daemon-reload either."""
    qos_evidence.settle(reloaded("daemon-reload-unified-no-swap"))


@pytest.mark.claim("lifecycle/daemon-reload-oom-group")
def test_daemon_reload_oom_group(reloaded, qos_evidence):
    """memory.oom.group of a container holds after systemctl daemon-reload."""
    qos_evidence.settle(reloaded("daemon-reload-oom-group"))


@pytest.mark.claim("lifecycle/daemon-reexec")
def test_daemon_reexec(replaced, qos_evidence):
    """Every value of a container holds after systemctl daemon-reexec."""
    qos_evidence.settle(replaced("daemon-reexec"))


@pytest.mark.claim("lifecycle/runtime-restart")
def test_runtime_restart(restarted, qos_evidence):
    """A container runs on through a restart of the runtime's daemon, with every value."""
    qos_evidence.settle(restarted("runtime-restart"))


@pytest.mark.claim("lifecycle/update-after-runtime-restart")
def test_update_after_runtime_restart(restarted, qos_evidence):
    """The first update after the daemon's restart changes what it names, and nothing else."""
    qos_evidence.settle(restarted("update-after-runtime-restart"))


@pytest.mark.claim("lifecycle/stays")
def test_stays(qos_life, qos_catalog, qos_evidence):
    """Nothing changes by itself in the seconds after a container was created and updated."""
    qos_evidence.settle(qos_life.left_alone(qos_catalog.request("update-unified-high")))


@pytest.mark.claim("lifecycle/exec")
def test_exec(qos_life, qos_catalog, qos_evidence):
    """A program that is run in a container changes no value, and runs in its cgroup with its oom_score_adj."""
    qos_evidence.settle(qos_life.exec_in_it(qos_catalog.request("everything")))


@pytest.mark.claim("lifecycle/stats")
def test_stats(qos_life, qos_catalog, qos_evidence):
    """No value changes when stats and status are asked for many times."""
    qos_evidence.settle(qos_life.asked_for_stats(qos_catalog.request("everything")))


@pytest.mark.claim("lifecycle/container-restart")
def test_container_restart(qos_life, qos_catalog, qos_evidence):
    """A container that was killed and made anew has every value, after an update too, and no count of before."""
    qos_evidence.settle(qos_life.made_again(qos_catalog.request("update-everything")))


@pytest.mark.claim("lifecycle/drift")
def test_drift(qos_life, qos_catalog, qos_evidence):
    """A foreign write is seen in its file alone, and an update that asks for the same again undoes it."""
    qos_evidence.settle(qos_life.written_by_others(qos_catalog.request("unified-high")))


@pytest.mark.claim("lifecycle/leaves-no-cgroups")
def test_leaves_no_cgroups(qos_life, qos_evidence):
    """Pods that come and go leave no cgroup."""
    qos_evidence.settle(qos_life.left_by_few("cgroups"))


@pytest.mark.claim("lifecycle/leaves-no-mounts")
def test_leaves_no_mounts(qos_life, qos_evidence):
    """Pods that come and go leave no mount."""
    qos_evidence.settle(qos_life.left_by_few("mounts"))


@pytest.mark.claim("lifecycle/leaves-no-units")
def test_leaves_no_units(qos_life, qos_evidence):
    """Pods that come and go leave no scope and no slice of systemd."""
    qos_evidence.settle(qos_life.left_by_few("units"))


@pytest.mark.claim("lifecycle/leaves-no-processes")
def test_leaves_no_processes(qos_life, qos_evidence):
    """Pods that come and go leave no shim, no conmon and no other process."""
    qos_evidence.settle(qos_life.left_by_few("processes"))


@pytest.mark.claim("lifecycle/many-leave-no-cgroups")
def test_many_leave_no_cgroups(qos_life, qos_evidence):
    """Fifty pods that come and go leave no cgroup."""
    qos_evidence.settle(qos_life.left_by_many("cgroups"))


@pytest.mark.claim("lifecycle/many-leave-no-mounts")
def test_many_leave_no_mounts(qos_life, qos_evidence):
    """Fifty pods that come and go leave no mount."""
    qos_evidence.settle(qos_life.left_by_many("mounts"))


@pytest.mark.claim("lifecycle/many-leave-no-units")
def test_many_leave_no_units(qos_life, qos_evidence):
    """Fifty pods that come and go leave no scope and no slice of systemd."""
    qos_evidence.settle(qos_life.left_by_many("units"))


@pytest.mark.claim("lifecycle/many-leave-no-processes")
def test_many_leave_no_processes(qos_life, qos_evidence):
    """Fifty pods that come and go leave no shim, no conmon and no other process."""
    qos_evidence.settle(qos_life.left_by_many("processes"))


@pytest.mark.claim("lifecycle/many-leave-no-memory")
def test_many_leave_no_memory(qos_life, qos_evidence):
    """The daemon's memory does not grow with fifty pods that come and go."""
    qos_evidence.settle(qos_life.daemon_after_many())
