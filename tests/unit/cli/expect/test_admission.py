"""`memqos expect` with what the API server's admission makes of manifests; expected values are literal."""

import json
from pathlib import Path

import pytest

from memqos.cli.main import run

CASES = Path(__file__).parents[3] / "cases"


@pytest.fixture
def told(capsys):
    """Run `memqos expect`: the exit code, and both outputs."""

    def tell(*arguments):
        code = run(["expect", *map(str, arguments)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


@pytest.fixture
def planned(told):
    """The plan as JSON."""

    def plan(*arguments):
        code, out, _ = told(*arguments, "--json")
        assert code == 0
        return json.loads(out)

    return plan


@pytest.fixture
def file(tmp_path):
    def write(text, name="all.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def values(plan, pod, container=None):
    """The files of a pod's cgroup, or of a container's."""
    uid = next(one["uid"] for one in plan["pods"] if one["name"] == pod)
    (found,) = (one for one in plan["cgroups"] if one["pod"] == uid and one["container"] == container)
    return {name: knob["value"] for name, knob in found["knobs"].items()}


def score(plan, pod, container):
    (own,) = (one for one in plan["pods"] if one["name"] == pod)
    return next(one["oom_score_adj"] for one in own["containers"] if one["name"] == container)


def refusals(plan):
    return {one["name"]: (one["by"], one["reason_name"], one["message"]) for one in plan["refusals"]}


def test_priority_classes_that_are_built_in(planned):
    case = CASES / "priorityclass"
    node = ("--capacity-memory", "8Gi", "--swap", "4Gi", "--driver", "systemd")
    plan = planned(case / "ds.yaml", "--kubernetes", "1.34", "--kubelet-config", case / "swap.yaml", *node)
    assert score(plan, "kube-proxy-1", "kube-proxy") == -997
    assert score(plan, "agent-1", "agent") == -997
    assert score(plan, "coredns-1", "coredns") == 992
    assert values(plan, "agent-1", "agent")["memory.swap.max"] == "0"
    assert values(plan, "coredns-1", "coredns")["memory.swap.max"] == "0"


def test_limit_range_defaults_and_refuses(planned):
    gate = ("--set", "featureGates.MemoryQoS=true")
    plan = planned(CASES / "limitrange" / "all.yaml", "--kubernetes", "1.36", *gate, "--capacity-memory", "8Gi")
    (pod,) = plan["pods"]
    assert (pod["name"], pod["qos"], score(plan, "blank", "app")) == ("blank", "Burstable", 969)
    own = values(plan, "blank", "app")
    assert (own["memory.max"], own["memory.high"]) == ("536870912", "510025728")
    assert refusals(plan) == {
        "default/big": (
            "API server",
            "Invalid",
            (
                'Pod "big" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than '
                "or equal to memory limit of 512Mi"
            ),
        )
    }


def test_reasons_name_the_limit_range(told):
    file = CASES / "limitrange" / "all.yaml"
    _, out, _ = told(file, "--kubernetes", "1.36", "--why", "memory.max", "--pod", "blank")
    assert f"[{file}:6 (LimitRange default/mem-limit-range, default)]" in out


def test_runtime_class_overhead(planned):
    plan = planned(CASES / "runtimeclass" / "all.yaml", "--kubernetes", "1.36", "--driver", "systemd")
    own = values(plan, "test-pod")
    assert (own["memory.max"], own["cpu.max"]) == ("335544320", "225000 100000")


@pytest.mark.parametrize("release", ["1.22", "1.23", "1.24", "1.37"])
def test_a_windows_pod_is_refused(planned, release):
    plan = planned(CASES / "ephemeral-and-windows" / "win.yaml", "--kubernetes", release)
    (one,) = plan["refusals"]
    # Up to 1.23 the API server drops spec.os: the node selector remains.
    assert one["reason_name"] == ("PodOSNotSupported" if release >= "1.24" else "NodeAffinity")
    assert (one["by"], plan["pods"]) == ("kubelet", [])


def test_ephemeral_containers_are_planned_as_added_later(told):
    code, out, err = told(CASES / "ephemeral-and-windows" / "eph.yaml", "--kubernetes", "1.36")
    assert code == 0
    assert "container debug of pod default/web" in out
    assert "the API server accepts ephemeral containers only for a running pod" in err


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web%s}
spec:
  containers: [{name: app, resources: {requests: {memory: 128Mi}}}]
"""


@pytest.mark.parametrize(
    "stored",
    [
        ", creationTimestamp: '2026-01-01T00:00:00Z'",
        ", resourceVersion: '7'",
    ],
)
def test_a_pod_out_of_a_cluster_is_not_admitted_again(planned, file, stored):
    limits = (CASES / "limitrange" / "all.yaml").read_text().partition("---")[0]
    plan = planned(file(f"{limits}---\n{POD % stored}"), "--kubernetes", "1.36")
    assert values(plan, "web", "app")["memory.max"] == "max"
    plan = planned(file(f"{limits}---\n{POD % ''}"), "--kubernetes", "1.36")
    assert values(plan, "web", "app")["memory.max"] == "536870912"


def test_a_static_pod_is_not_admitted(planned, file):
    limits = (CASES / "limitrange" / "all.yaml").read_text().partition("---")[0]
    plan = planned(file(f"{limits}---\n{POD % ''}"), "--kubernetes", "1.36", "--static")
    assert values(plan, "web", "app")["memory.max"] == "max"


def test_namespace_is_kubectls(told, planned, file):
    limits = (CASES / "limitrange" / "all.yaml").read_text().partition("---")[0]
    both = file(f"{limits}---\n{POD % ''}")
    plan = planned(both, "--kubernetes", "1.36", "-n", "team")
    assert plan["pods"][0]["namespace"] == "team"
    assert values(plan, "web", "app")["memory.max"] == "536870912"
    other = file(POD % ", namespace: shop", "other.yaml")
    code, _, err = told(other, "--kubernetes", "1.36", "--namespace", "team")
    assert code == 4
    assert f'{other}:3: metadata.namespace: the namespace from the provided object "shop" does not match' in err


def test_limit_ranges_of_other_namespaces_do_not_count(planned, file):
    limits = (CASES / "limitrange" / "all.yaml").read_text().partition("---")[0]
    text = f"{limits}---\n{POD % ', namespace: shop'}"
    assert values(planned(file(text), "--kubernetes", "1.36"), "web", "app")["memory.max"] == "max"


GATED = """\
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  schedulingGates: [{name: example.com/wait}]
  containers: [{name: app}]
"""


def test_scheduling_gates(planned, file):
    assert refusals(planned(file(GATED), "--kubernetes", "1.36")) == {
        "default/gated": ("scheduler", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    }
    assert refusals(planned(file(GATED), "--kubernetes", "1.26")) == {}


AUTOSCALED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, resources: {requests: {memory: 128Mi}, limits: {memory: 256Mi}}}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  updatePolicy: {updateMode: Initial}
  resourcePolicy:
    containerPolicies: [{containerName: "*", maxAllowed: {memory: 400Mi}}]
status:
  recommendation:
    containerRecommendations: [{containerName: app, target: {memory: 500Mi}}]
"""


def test_a_vertical_pod_autoscaler_is_a_note_or_applied(told, planned, file):
    path = file(AUTOSCALED)
    _, _, err = told(path, "--kubernetes", "1.36")
    assert "VerticalPodAutoscaler default/web: updateMode Initial: new pods of Deployment web get its" in err
    assert "requests.memory 500Mi of container app" in err
    assert values(planned(path, "--kubernetes", "1.36"), "web-1", "app")["memory.max"] == "268435456"
    applied = planned(path, "--kubernetes", "1.36", "--vpa")
    # 400Mi, as the policy allows, and a limit of twice as much, as before.
    assert values(applied, "web-1", "app")["memory.max"] == "838860800"
    assert not [one for one in applied["remarks"] if "Autoscaler" in one["about"]]


def test_skipped_objects_are_noted_with_their_effect(told, planned, file):
    path = file(
        POD % ""
        + "".join(
            f"---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n"
            for version, kind in (
                ("v1", "Service"),
                ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
                ("autoscaling/v2", "HorizontalPodAutoscaler"),
                ("argoproj.io/v1alpha1", "Rollout"),
                ("serving.knative.dev/v1", "Service"),
                ("karpenter.sh/v1", "NodePool"),
                ("example.com/v1", "Thing"),
            )
        )
    )
    _, _, err = told(path, "--kubernetes", "1.36")
    assert "ignored, since they neither create nor change pods: Service (1).\n" in err
    assert "not applied, though it may change pods: MutatingWebhookConfiguration (1): a webhook may set" in err
    assert "may change the number of pods: HorizontalPodAutoscaler (1): it changes the number" in err
    assert "ignored, though it may create pods: Rollout (1), Service (1): its controller creates pods" in err
    assert "ignored, since it is about nodes: NodePool (1)" in err
    assert "ignored, though it may create or change pods: Thing (1): memqos does not know it" in err
    effects = {(one["kind"], one["effect"]) for one in planned(path, "--kubernetes", "1.36")["passed_over"]}
    assert effects >= {("Service", "none"), ("Service", "may make pods"), ("Thing", "unknown")}


def test_a_resize_beyond_a_limit_range_is_forbidden(told, file):
    limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: most}\nspec: {limits: [{type: Container, %s}]}\n"
    pod = POD.replace("requests: {memory: 128Mi}", "limits: {memory: 128Mi}")
    before = file((limits % "max: {memory: 1Gi}") + "---\n" + pod % "")
    after = file(pod.replace("128Mi", "2Gi") % "", "after.yaml")
    code, out, _ = told(before, "--kubernetes", "1.36", "--resize", after)
    assert code == 0
    assert 'pods "web" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi' in out
