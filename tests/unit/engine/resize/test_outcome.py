"""Resizes as text and JSON."""

from memqos.engine.kubelet import Kubelet
from memqos.engine.resize import resize_pods
from memqos.engine.resize.outcome import resize_document, resize_reasons, resize_text
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import DRIVEN_DIRECTLY, RuntimeName, traits_of, traits_of_program
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings
from tests.unit.engine.pods import NODE, container, pod

KNOWN = (*DRIVEN_DIRECTLY, RuntimeName.KATA)
ON = KubeletSettings(feature_gates={"InPlacePodVerticalScaling": True})


def planned(size="256Mi", release="1.31"):
    old, new = (
        pod(container({"cpu": "1", "memory": "64Mi"}, {"cpu": "1", "memory": limit})) for limit in ("128Mi", size)
    )
    return resize_pods([old], [new], Kubelet.of(node=NODE, settings=ON, release=release))


def test_text():
    lines = resize_text(planned()).splitlines()
    assert lines[:5] == [
        "Kubernetes 1.31, cgroup driver cgroupfs: 1 resize",
        "",
        "pod default/p: InProgress",
        "  the resize fits on the node with the other pods",
        "    source   resize v1.27 shipped; kubelet allocation.manager, canResizePod",
    ]
    assert lines[11:18] == [
        "  1. pod cgroup (memory) of the pod",
        "     the pod's memory limit grows: its cgroup is written before the containers",
        "       writes memory.max=268435456",
        "  2. UpdateContainerResources (memory) of container c",
        "     container c: its memory changes, the other resource keeps its last value",
        ("       sends  cpu_period=100000 cpu_quota=100000 cpu_shares=1024 memory_limit_in_bytes=268435456 "
        "oom_score_adj=993 memory.oom.group=1 memory.swap.max=0"),
        ("       writes memory.swap.max=0; memory.max=268435456; cpu.weight=39; cpu.max=100000 100000; "
        "memory.oom.group=1"),
    ]  # fmt: skip
    assert "  memory.max: 134217728 -> 268435456" in lines


def test_a_message_to_the_runtime_is_not_a_write():
    lines = resize_text(planned(release="1.36")).splitlines()
    at = lines.index("  1. UpdatePodSandboxResources (memory) of the pod")
    assert lines[at + 2].startswith("       sends  cpu_period=100000 cpu_quota=100000 cpu_shares=")
    assert lines[at + 3] == "  2. pod cgroup (memory) of the pod"


def test_an_update_in_a_sandbox():
    """runsc writes no interface file for a container that is not its sandbox's root (gVisor, container.Update)."""
    old, new = (pod(container({"memory": "64Mi"}, {"memory": limit})) for limit in ("128Mi", "256Mi"))
    for oci, version, reach in (
        ("runsc", "20260817", "runsc 20260817 keeps the new resources in its own state and writes no interface file"),
        ("kata", "3.2", "kata 3.2 passes the new resources on to the virtual machine of the pod"),
        ("youki", "0.6", "youki 0.6 is not modelled, and the OCI runtime specification has no update"),
        ("runc", "1.3.6", ""),
    ):
        runtimes = Runtimes(cri=traits_of("containerd", "2.1.9"), oci=traits_of_program(oci, version, KNOWN))
        plan = resize_pods([old], [new], Kubelet.of(node=NODE, settings=ON, release="1.37", runtimes=runtimes))
        document = resize_document(plan)["resizes"][0]
        [update] = [step for step in document["steps"] if step["kind"] == "UpdateContainerResources"]
        assert update.get("reach", "").startswith(reach)
        assert bool(update.get("reach")) is bool(reach)
        assert reach in resize_text(plan)


def test_text_of_a_refusal():
    lines = resize_text(planned("100Mi", "1.33")).splitlines()
    assert lines[2] == (
        "pod default/p: Forbidden: memory limits cannot be decreased unless resizePolicy is RestartContainer"
    )
    assert lines[-1] == "before -> after: nothing changes"


def test_reasons():
    text = resize_reasons(planned(), Knob.MEMORY_MAX)
    assert "  1. pod cgroup (memory) of the pod: memory.max 268435456 (256 MiB)" in text
    assert "limit read from the pod's cgroup = 134217728 bytes" in text
    assert "  2. UpdateContainerResources (memory) of container c: memory.max 268435456 (256 MiB)" in text
    assert resize_reasons(planned(), Knob.MEMORY_LOW).endswith("  no step writes memory.low")


def test_document():
    document = resize_document(planned("256Mi", "1.36"))
    [one] = document["resizes"]
    assert (document["release"], one["outcome"], one["message"], one["uid"]) == ("1.36", "InProgress", "", "uid-p")
    assert [(step["kind"], step["resource"], step.get("container")) for step in one["steps"]] == [
        ("UpdatePodSandboxResources", "memory", None), ("pod cgroup", "memory", None),
        ("UpdateContainerResources", "memory", "c"),
    ]  # fmt: skip
    told, write, update = one["steps"]
    assert ("knobs" in told, "cri" in write, told["cri"]["memory_limit_in_bytes"]) == (False, False, 268435456)
    assert write["knobs"]["memory.max"]["written"] == "268435456"
    assert update["cri"]["cpu_quota"] == 100000
    assert {change["what"] for change in document["changes"]} == {"memory.max", "cri memory_limit_in_bytes"}
