import gzip
import lzma
import textwrap
from fractions import Fraction

import pytest
import yaml

from memqos.catalog.pods import load_pods
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.errors import ManifestError
from memqos.model.knob import Knob
from memqos.model.node import NodeFacts
from memqos.model.pod import ContainerKind, ResizePolicy
from memqos.model.quantity import Quantity
from tests.manifests import pods_of


def pods(text):
    return pods_of(textwrap.dedent(text).encode(), "p.yaml")


def manifest(container="", spec="", meta=""):
    """A pod with places for single lines: in its container, its spec, its metadata."""
    return "\n".join(
        [
            "apiVersion: v1",
            "kind: Pod",
            "metadata:",
            "  name: p",
            *(f"  {line}" for line in meta.splitlines()),
            "spec:",
            *(f"  {line}" for line in spec.splitlines()),
            "  containers:",
            "  - name: c",
            *(f"    {line}" for line in container.splitlines()),
        ]
    )


def resources(text):
    return manifest(f"resources:\n{textwrap.indent(textwrap.dedent(text), '  ')}")


WHOLE = """\
    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: shop
      uid: 0a1b
    spec:
      priority: 2000001000
      priorityClassName: system-node-critical
      overhead: {memory: 10Mi}
      resources:
        limits: {memory: 2Gi}
      initContainers:
      - name: first
        resources: {requests: {memory: 64Mi}}
      - name: side
        restartPolicy: Always
      containers:
      - name: app
        image: img
        command: [run]
        args: ["1", x]
        resources:
          requests:
            memory: 100m
          limits:
            memory: 1.5Gi
            cpu: 0.5
      ephemeralContainers:
      - name: debug
        targetContainerName: app
    """


def test_whole_pod():
    (pod,) = pods(WHOLE)
    assert (pod.name, pod.namespace, pod.uid, pod.file) == ("web", "shop", "0a1b", "p.yaml")
    assert (pod.priority, pod.priority_class_name, pod.static) == (2000001000, "system-node-critical", False)
    assert [(one.name, one.kind) for one in pod.all_containers] == [
        ("first", ContainerKind.INIT),
        ("side", ContainerKind.SIDECAR),
        ("app", ContainerKind.APP),
        ("debug", ContainerKind.EPHEMERAL),
    ]
    app = pod.containers[0]
    assert (app.image, app.command, app.args) == ("img", ("run",), ("1", "x"))
    # The limit becomes the missing request.
    assert app.resources.requests == {"memory": Quantity.parse("0.1"), "cpu": Quantity.parse("500m")}
    assert app.resources.limits["memory"].value == 1610612736
    assert app.origin["limits.memory"] == "p.yaml:27"
    assert app.origin["requests.memory"] == "p.yaml:25"
    assert app.origin["requests.cpu"] == "p.yaml:28, from the limit"
    assert pod.overhead["memory"].value == 10485760
    assert pod.origin == {
        "overhead.memory": "p.yaml:10",
        "priority": "p.yaml:8",
        "priorityClassName": "p.yaml:9",
        "resources.limits.memory": "p.yaml:12",
    }
    assert pod.resources.limits["memory"].value == 2 << 30
    assert pod.resources.requests == {}


def test_uid_derives_from_namespace_and_name():
    first, again = pods(manifest()), pods(manifest())
    assert first[0].uid == again[0].uid
    assert first[0].uid != pods(manifest(meta="namespace: other"))[0].uid


def test_generated_name():
    (pod,) = pods(manifest().replace("  name: p", "  generateName: web-"))
    assert pod.name == "web-00000"


@pytest.mark.parametrize(
    ("annotations", "static"),
    [
        ("kubernetes.io/config.source: file", True),
        ("kubernetes.io/config.source: http", True),
        ("kubernetes.io/config.source: api", False),
        ("kubernetes.io/config.mirror: 'true'", True),
        ("other: x", False),
    ],
)
def test_static_pods(annotations, static):
    # TestIsStaticPod and TestIsMirrorPod of the kubelet.
    assert pods(manifest(meta=f"annotations: {{{annotations}}}"))[0].static is static


def test_several_pods():
    text = f"{manifest()}\n---\n{manifest().replace('name: p', 'name: q')}\n"
    assert [pod.name for pod in pods(text)] == ["p", "q"]
    document = yaml.safe_load(manifest())
    for kind in ("List", "PodList"):
        listed = yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": [document, document]})
        assert [pod.name for pod in pods(listed)] == ["p", "p"]
    bare = {key: value for key, value in document.items() if key not in {"kind", "apiVersion"}}
    assert pods(yaml.safe_dump({"apiVersion": "v1", "kind": "PodList", "items": [bare]}))[0].name == "p"


def test_pod_level_resources():
    both = "resources: {requests: {memory: 1Gi, cpu: 1}, limits: {memory: 2Gi}}"
    (pod,) = pods(manifest("resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}}", both))
    assert pod.resources.requests["memory"].value == 1 << 30
    # Empty is not the same as missing.
    assert pods(manifest(spec="resources: {}"))[0].resources is not None
    assert pods(manifest())[0].resources is None


def test_resize_policies():
    text = manifest("resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, "
                    "{resourceName: memory, restartPolicy: RestartContainer}]")  # fmt: skip
    [pod] = pods(text)
    assert pod.containers[0].resize_policy == {
        "cpu": ResizePolicy.NOT_REQUIRED, "memory": ResizePolicy.RESTART_CONTAINER
    }  # fmt: skip


def test_null_is_not_given():
    (pod,) = pods(manifest("resources:\n  requests: null\n  limits:", "overhead: null\ninitContainers: null"))
    assert pod.containers[0].resources.requests == pod.containers[0].resources.limits == pod.overhead == {}
    # A null quantity is the zero quantity.
    (pod,) = pods(resources("requests: {memory: null}"))
    assert pod.containers[0].resources.requests["memory"].amount == 0


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("1Gi", 1 << 30),
        ("1073741824", 1 << 30),
        ("'1073741824'", 1 << 30),
        ("1e9", 10**9),
        ("1.5e9", 1_500_000_000),
        ("0.5", Fraction(1, 2)),
        ("100m", Fraction(1, 10)),
        ("1u", Fraction(1, 1_000_000)),
        ("' 64Mi '", 64 << 20),
        ('"\\u00a064Mi\\u3000"', 64 << 20),
        ("1_000", 1000),
        ("0100", 64),
        ("+5M", 5_000_000),
        (".5Gi", 1 << 29),
        ("5.", 5),
        ("2E", 2 * 10**18),
    ],
)
def test_quantities(written, amount):
    (pod,) = pods(resources(f"requests: {{memory: {written}}}"))
    assert pod.containers[0].resources.requests["memory"].amount == amount


LONG = "1" * 10_000


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        # wrong quantities
        (resources("requests: {memory: 12q}"), "p.yaml:9: spec.containers[0].resources.requests.memory", "suffix"),
        (resources("requests: {memory: ''}"), "p.yaml:9", "not a quantity"),
        (resources("requests: {memory: 1_000Mi}"), "p.yaml:9", "'1_000Mi' is not a quantity"),
        (resources("requests: {memory: '1_000'}"), "p.yaml:9", "'1_000' is not a quantity"),
        (resources('requests: {memory: "128Mi\\n"}'), "p.yaml:9", "is not a quantity"),
        (resources('requests: {memory: "\\t128Mi"}'), "p.yaml:9", "is not a quantity"),
        (resources('requests: {memory: "128Mi\\u2028"}'), "p.yaml:9", "is not a quantity"),
        (resources("requests: {memory: 1:30}"), "p.yaml:9", "'1:30' is not a quantity"),
        (resources("requests: {memory: .inf}"), "p.yaml:9", "'inf' is not a quantity"),
        (resources("requests: {memory: 2001-12-14}"), "p.yaml:9", "is not a quantity"),
        (resources("requests: {memory: on}"), "p.yaml:9", "expected a quantity, got 'on'"),
        (resources("requests: {memory: 1٢Mi}"), "p.yaml:9", "is not a quantity"),
        (resources("limits: {memory: true}"), "p.yaml:9", "expected a quantity, got 'true'"),
        (resources("limits: {memory: [1]}"), "p.yaml:9", "expected a quantity, got a list"),
        (resources("requests: {memory: -1}"), "p.yaml:9", "must not be negative"),
        (resources("requests:\n  memory: -1Gi"), "p.yaml:10", "must not be negative"),
        (resources("requests: {memory: 1e1000}"), "p.yaml:9", "above Kubernetes' maximum|not a quantity"),
        (resources("requests: {memory: '1e1000'}"), "p.yaml:9", "above Kubernetes' maximum"),
        (resources("requests: {memory: 100Ei}"), "p.yaml:9", "above Kubernetes' maximum"),
        (resources("requests: {memory: ٣Mi}"), "p.yaml:9", "not a quantity"),
        (resources(f"requests: {{memory: '{LONG}'}}"), "p.yaml:9", "10000 characters"),
        (resources("requests: {mem: 1Gi}"), "p.yaml:9: spec.containers[0].resources.requests.mem", "'memory'"),
        (resources("requests: {mem_ory_x: 1Gi}"), "p.yaml:9", "Did you mean 'memory'"),
        (resources("requests: {zzz: 1Gi}"), "p.yaml:9", "Known: cpu, memory"),
        # requests against limits
        (resources("requests: {memory: 2Gi}\nlimits: {memory: 1Gi}"), "p.yaml:9", "2Gi is above the limit 1Gi"),
        (resources("requests:\n  cpu: 2\nlimits:\n  cpu: 1500m"), "p.yaml:10", "2 is above the limit 1500m"),
        (resources("requests: {hugepages-2Mi: 2Mi}\nlimits: {hugepages-2Mi: 4Mi}"), "p.yaml:9", "overcommitted"),
        (resources("requests: {hugepages-2Mi: 2Mi}"), "p.yaml:9", "need a limit as well"),
        (resources("requests: {nvidia.com/gpu: 1}"), "p.yaml:9", "extended resources need a limit as well"),
        (
            resources("requests: {nvidia.com/gpu: 1}\nlimits: {nvidia.com/gpu: 2}"),
            "p.yaml:9",
            "extended resources cannot be overcommitted: the request 1 must equal the limit 2",
        ),
        (resources("limits: {nvidia.com/gpu: 0.5}"), "p.yaml:9", "0.5 is not a whole number"),
        (resources("limits:\n  memory: 1Gi\n  hugepages-2Mi: 3Mi"), "p.yaml:11", "3Mi is not a whole number of huge"),
        (resources("limits: {memory: 1Gi, hugepages-2MB: 2Mi}"), "p.yaml:9", "2Mi is not a whole number of huge"),
        # unknown fields and wrong types
        (manifest("imagee: x"), "p.yaml:8: spec.containers[0].imagee", "unknown field 'imagee'. Did you mean 'image'"),
        (manifest("resources: {Limits: {}}"), "p.yaml:8: spec.containers[0].resources.Limits", "Did you mean 'limits'"),
        (manifest(spec="restartpolicy: Never"), "p.yaml:6: spec.restartpolicy", "Did you mean 'restartPolicy'"),
        (manifest(meta="labels: {a: 1}"), "p.yaml:5: metadata.labels.a", "expected a string, got '1'. Put"),
        (manifest("env: [{name: A, value: on}]"), "p.yaml:8: spec.containers[0].env[0].value", "expected a string"),
        (manifest("args: x"), "p.yaml:8: spec.containers[0].args", "expected a list, got 'x'"),
        (manifest("resources: [1]"), "p.yaml:8: spec.containers[0].resources", "expected a mapping of fields, got a"),
        (manifest("ports: [{containerPort: '80'}]"), "containerPort", "expected a whole number, got '80'"),
        (manifest("tty: 1"), "p.yaml:8: spec.containers[0].tty", "expected true or false, got '1'"),
        (manifest(spec="priority: true"), "p.yaml:6: spec.priority", "expected a whole number, got 'true'"),
        (manifest(spec="containers: []\nhostNetwork: true").replace("  containers:\n  - name: c", ""),
         "spec.containers", "at least one container"),
        (manifest(spec=f"{'x' * 200}: 1"), "p.yaml:6", "unknown field 'x+\\.\\.\\.'"),
        # names
        (manifest().replace("name: c", "image: x"), "p.yaml:7: spec.containers[0].name", "needs a name"),
        (manifest().replace("name: c", "name: A_b"), "p.yaml:7", "'A_b' is not a name"),
        (manifest().replace("name: p", "name: Pod"), "p.yaml:4: metadata.name", "small letters"),
        (manifest().replace("  name: p", "  labels: {}"), "metadata.name", "a Pod needs a name"),
        (manifest(meta="namespace: a.b"), "p.yaml:5: metadata.namespace", "'a.b' is not a name"),
        (manifest().replace("name: p", f"name: {'p' * 254}"), "p.yaml:4", "at most 253"),
        (f"{manifest()}\n  - name: c\n", "p.yaml:8: spec.containers[1].name", "another container is called 'c'"),
        (manifest(spec="initContainers:\n- name: c"), "spec.containers[0].name", "another container is called 'c'"),
        (manifest("restartPolicy: Sometimes"), "p.yaml:8: spec.containers[0].restartPolicy", "'Sometimes'"),
        (manifest("resizePolicy: [{resourceName: disk, restartPolicy: NotRequired}]"),
         "p.yaml:8: spec.containers[0].resizePolicy[0].resourceName", "'disk' cannot be resized: cpu and memory can."),
        (manifest("resizePolicy: [{resourceName: cpu, restartPolicy: Never}]"),
         "p.yaml:8: spec.containers[0].resizePolicy[0].restartPolicy",
         "'Never' is not a resize policy: NotRequired, RestartContainer."),
        (manifest("resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, "
                  "{resourceName: cpu, restartPolicy: NotRequired}]"),
         "p.yaml:8: spec.containers[0].resizePolicy[1].resourceName", "cpu has a policy already."),
        (manifest(spec="ephemeralContainers:\n- {name: e, resources: {limits: {cpu: 1}}}"), "ephemeralContainers[0]",
         "no resources"),
        (manifest(meta="uid: a/b"), "p.yaml:5: metadata.uid", "cgroup's name"),
        # the object
        ("a: 1", "p.yaml:1: kind", "kind is not set.*kubectl get pods -o yaml prints the pods of a cluster"),
        ("kind: Pod\nspec: {}", "apiVersion", "apiVersion is not set"),
        ("kind: Deployment\napiVersion: apps/v1beta2", "p.yaml:1: kind", "Deployment in apps/v1beta2. .* is apps/v1"),
        ("kind: Deploymnt\napiVersion: apps/v1", "p.yaml:1: kind", "no Deploymnt in apps/v1. .* 'Deployment'"),
        ("kind: Pod\napiVersion: v2", "p.yaml:1", "The API version of a Pod is v1"),
        ("kind: [Pod]\napiVersion: v1", "p.yaml:1", "kind is not set"),
        ("- 1", "p.yaml:1", "expected an object"),
        ("hello", "p.yaml:1", "expected an object"),
        ("kind: Pod\napiVersion: v1\nspec: {}", "metadata", "a Pod needs metadata"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}", "spec", "a Pod needs spec"),
        ("kind: List\napiVersion: v1\nitems: 1", "items", "expected a list of objects"),
        ("kind: List\napiVersion: v1\nitems: [{kind: Job, apiVersion: batch/v2}]", "items[0].kind", "no Job in"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [1]}", "spec.containers[0]", "a mapping"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [null]}", "spec.containers[0]", "mapping"),
        # pod-level resources
        (manifest(spec="resources: {requests: {storage: 1}}"), "spec.resources.requests.storage", "not a resource"),
        (manifest(spec="resources: {requests: {ephemeral-storage: 1}}"), "spec.resources", "cannot be given"),
        (manifest("resources: {requests: {memory: 2Gi}}", "resources: {requests: {memory: 1Gi}}"),
         "p.yaml:6: spec.resources.requests.memory", "1Gi is below the 2147483648|below the 2Gi"),
        (manifest("resources: {limits: {memory: 2Gi}, requests: {memory: 0}}", "resources: {limits: {memory: 1Gi}}"),
         "p.yaml:6: spec.resources.limits.memory", "below the limit 2Gi of its container 'c'"),
        (manifest("resources: {requests: {memory: 2Gi}}", "resources: {limits: {memory: 1Gi}}"),
         "p.yaml:6: spec.resources.limits.memory", "request together"),
        (manifest(spec="resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), "spec.resources.requests.cpu", "above"),
    ],
)  # fmt: skip
def test_refused(text, where, says):
    with pytest.raises(ManifestError, match=says) as caught:
        pods(text)
    assert where in caught.value.where
    assert "Traceback" not in str(caught.value)


def test_every_pod_of_upstream_examples_fields_is_known():
    (pod,) = pods(
        """\
        apiVersion: v1
        kind: Pod
        metadata:
          name: p
          labels: {app: x}
          ownerReferences: [{apiVersion: v1, kind: Node, name: m, uid: u, controller: true}]
          creationTimestamp: null
        spec:
          nodeName: m
          tolerations: [{key: a, operator: Exists, tolerationSeconds: 300}]
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions: [{key: k, operator: In, values: [v]}]
          securityContext: {runAsUser: 1000, fsGroup: 1, sysctls: [{name: a, value: b}]}
          topologySpreadConstraints: [{maxSkew: 1, topologyKey: t, whenUnsatisfiable: DoNotSchedule}]
          volumes:
          - {name: a, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
          - {name: b, configMap: {name: c, items: [{key: k, path: p}]}}
          - {name: c, csi: {driver: d}}
          - {name: d, projected: {sources: [{serviceAccountToken: {path: t}}]}}
          containers:
          - name: c
            image: i
            ports: [{containerPort: 80, protocol: TCP}]
            env:
            - {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: B, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
            livenessProbe: {httpGet: {path: /, port: http}, periodSeconds: 5}
            readinessProbe: {tcpSocket: {port: 80}}
            lifecycle: {preStop: {exec: {command: [a]}}}
            securityContext: {capabilities: {add: [NET_ADMIN]}, privileged: false}
            volumeMounts: [{name: a, mountPath: /a, readOnly: true}]
            resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
        status: {phase: Running, anything: [1]}
        """
    )
    assert pod.name == "p"


def test_amounts_keep_their_written_form():
    """Rules see 1 nano, which defaulting adds up before it rounds: 1n + 1.9999 CPUs are 2, not 1m + 2."""
    own = manifest("resources: {requests: {cpu: 1n}}", "resources: {limits: {memory: 1Gi}}")
    (pod,) = pods(f"{own}\n  - name: d\n    resources: {{requests: {{cpu: 1.9999}}}}")
    assert [one.resources.requests["cpu"].nanos for one in pod.containers] == [1, 1_999_900_000]
    plan = expect([pod], Kubelet.of(node=NodeFacts(memory=8 << 30, cpus=4), release="1.36"))
    # Of 2048 shares, by the linear conversion.
    assert str(plan.pods[0].cgroup.knobs[Knob.CPU_WEIGHT].written) == "79"


def test_a_request_is_compared_with_its_limit_after_rounding():
    (pod,) = pods(manifest("resources: {requests: {cpu: 100u}, limits: {cpu: 1n}}"))
    assert pod.containers[0].resources.requests["cpu"].nanos == 100_000


def test_memory_backed_volumes_have_their_size_limits():
    volumes = """\
volumes:
- {name: text, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
- {name: number, emptyDir: {medium: Memory, sizeLimit: 4096}}
- {name: unlimited, emptyDir: {medium: Memory}}
- {name: empty, emptyDir: {medium: Memory, sizeLimit: null}}
- {name: on-disk, emptyDir: {sizeLimit: 1Gi}}
- {name: secret, secret: {secretName: s}}
"""
    [found] = pods(manifest(spec=volumes))
    sizes = {"text": Quantity.parse("64Mi"), "number": Quantity.parse("4096"), "unlimited": None, "empty": None}
    assert found.memory_volumes == sizes


def test_a_size_limit_that_is_no_quantity_is_refused():
    with pytest.raises(ManifestError) as caught:
        pods(manifest(spec="volumes:\n- {name: v, emptyDir: {medium: Memory, sizeLimit: 64Mb}}"))
    assert "spec.volumes[0].emptyDir.sizeLimit" in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_compressed_file_is_called_so(pack, tmp_path):
    """A packed must-gather with --pods."""
    (tmp_path / "pods.tar.gz").write_bytes(pack(b"apiVersion: v1\n"))
    with pytest.raises(ManifestError) as caught:
        load_pods(tmp_path / "pods.tar.gz")
    assert caught.value.next_step == "It is compressed: decompress it first."
