"""`memqos expect --resize`: states of containers (--state), and an earlier change of the configuration."""

import json

import pytest

CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write these files into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)

    return write


def web(request, limit):
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app, image: x, resources: "
        f"{{requests: {{cpu: 100m, memory: {request}}}, limits: {{memory: {limit}}}}}}}]}}\n"
    )


def test_a_container_that_does_not_run(told, files):
    files(old=web("175Mi", "175Mi"), new=web("1536Mi", "1536Mi"))
    ask = ("old.yaml", "--kubernetes", "1.34", "--resize", "new.yaml", "--capacity-memory", "16Gi")
    code, out, _ = told(*ask, "--state", "web/app=crash-looping")
    assert code == 0
    assert "memory.max of pod default/web stays 183500800; after recreation it is 1610612736" in out
    assert "kubernetes#138760" in out
    _, out, _ = told(*ask, "--state", "default/web/app=running", "--json")
    [resize] = json.loads(out)["resizes"]
    assert [one["knob"] for one in resize["left"]] == ["oom_score_adj"]


@pytest.mark.parametrize(("more", "said"), [
    (("--resize", "new.yaml", "--state", "web/app=dead"), "there is no state of a container 'dead'"),
    (("--resize", "new.yaml", "--state", "web/ap=exited"), "there is no container 'web/ap'"),
    (("--state", "web/app=exited"), "--state needs --resize."),
    (("--resize", "new.yaml", "--diff-config", "old.yaml"), "--resize with --diff or --diff-config needs --running"),
])  # fmt: skip
def test_impossible_resizes(told, files, more, said):
    files(old=web("175Mi", "175Mi"), new=web("1536Mi", "1536Mi"))
    code, _, err = told("old.yaml", "--kubernetes", "1.34", *more)
    assert (code, said in err.replace("\n", " ")) == (4, True)


# Public measurement of MemoryQoS (kubelet 1.37, CRI-O 1.37.0): the gate off, the kubelet restarted, then 128Mi of 256Mi
# to 192Mi of 384Mi. Pod and container have memory.max 402653184, memory.high is max, both memory.low stay 134217728.
def test_a_resize_after_a_rollback(told, files):
    on = "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0.9\nmemoryReservationPolicy: TieredReservation\n"
    files(
        old=web("128Mi", "256Mi"), new=web("192Mi", "384Mi"), on=CONFIG + on,
        off=f"{CONFIG}featureGates: {{MemoryQoS: false}}\n",
    )  # fmt: skip
    ask = (
        "old.yaml", "--kubernetes", "1.37", "--kubelet-config", "on.yaml", "--diff-config", "off.yaml", "--running",
        "--resize", "new.yaml", "--driver", "systemd", "--runtime", "cri-o@1.37.0+crun@1.28",
    )  # fmt: skip
    code, out, _ = told(*ask)
    assert code == 0
    assert "1.37 with on.yaml -> 1.37 with off.yaml" in out
    for kept in (
        "memory.low of pod default/web stays 134217728; after recreation it is 0",
        "memory.low of container app of pod default/web stays 134217728; after recreation it is 0",
    ):
        assert kept in out
    assert "memory.high=max" in out
    _, out, _ = told(*ask, "--json")
    document = json.loads(out)
    [resize] = document["resizes"]
    writes = {
        (step["kind"], step.get("container", ""), knob): one["written"]
        for step in resize["steps"] for knob, one in step.get("knobs", {}).items()
    }  # fmt: skip
    assert writes["pod cgroup", "", "memory.max"] == "402653184"
    assert writes["UpdateContainerResources", "app", "memory.max"] == "402653184"
    assert writes["UpdateContainerResources", "app", "memory.high"] == "max"
    assert {knob for _, _, knob in writes}.isdisjoint({"memory.low", "memory.min"})
    assert {one["knob"] for one in resize["left"]} == {"memory.low", "oom_score_adj"}
    # Values that the change of the configuration removed before: the sums above pods.
    assert {one["subject"] for one in document["succession"]} >= {"kubepods.slice", "kubepods-burstable.slice"}


def test_a_volume_with_another_size_is_named(told, files):
    def with_volume(text, size):
        volume = f"spec: {{volumes: [{{name: cache, emptyDir: {{medium: Memory, sizeLimit: {size}}}}}], "
        return text.replace("spec: {", volume)

    files(old=with_volume(web("128Mi", "256Mi"), "64Mi"), new=with_volume(web("128Mi", "512Mi"), "128Mi"))
    ask = ("old.yaml", "--resize", "new.yaml", "--kubernetes")
    _, out, _ = told(*ask, "1.36")
    assert "\n  volume cache (64Mi to 128Mi): the size stays, since no resize changes a volume in 1.36\n" in out
    gate = ("--set", "featureGates.InPlacePodVerticalScalingMemoryBackedVolumes=true")
    _, out, _ = told(*ask, "1.37", *gate)
    assert "\n  volume cache (64Mi to 128Mi): resizes of memory-backed volumes are not modelled. By KEP-6030, " in out
    _, _, err = told("old.yaml", "--kubernetes", "1.37", *gate)
    assert "featureGates.InPlacePodVerticalScalingMemoryBackedVolumes: resizes of memory-backed volumes are not" in err
