"""Lists of any length, as `kubectl get pods -A -o json` prints them: one object at a time, with the lines of each."""

import io
import json

import pytest

from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.pods import load_pods
from memqos.errors import ManifestError


def pod(number, **more):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"web-{number}", "namespace": f"team-{number % 7}", **more},
        "spec": {"containers": [{"name": "app", "resources": {"limits": {"memory": "64Mi"}}}], "nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def listed(pods, **head):
    """In kubectl's order of keys: the kind comes after the items."""
    document = {"apiVersion": "v1", "items": list(pods), "kind": "List", "metadata": {"resourceVersion": ""}, **head}
    return json.dumps(document, indent=4).encode()


def pods_in(stream, file):
    return (pod for one in manifests_in(stream, file) if isinstance(one, Manifest) for pod in one.pods)


def found(data, file="pods.json"):
    return list(pods_in(io.BytesIO(data), file))


def test_the_pods_of_a_large_cluster(tmp_path):
    """More values, and more bytes, than any one object may have."""
    path = tmp_path / "pods.json"
    path.write_bytes(listed(map(pod, range(12_000))))
    assert path.stat().st_size > 9_000_000
    pods = load_pods([path])
    assert len(pods) == 12_000
    assert (pods[-1].name, pods[-1].node, pods[-1].phase) == ("web-11999", "n1", "Running")


def test_a_list_is_not_kept_in_memory():
    """Each pod is returned soon after it was read."""
    data = listed(map(pod, range(3_000)))
    stream = io.BytesIO(data)
    pods = pods_in(stream, "pods.json")
    for number in range(3_000):
        assert next(pods).name == f"web-{number}"
        assert stream.tell() < (number + 1) * len(data) / 3_000 + 100_000


@pytest.mark.parametrize("write", ["json", "yaml"])
def test_places_are_exact_within_a_list(write):
    pods = [pod(number) for number in range(2_000)]
    pods[1_700]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "much"
    if write == "json":
        data = listed(pods)
    else:
        lines = ["apiVersion: v1\nkind: List\nitems:\n", *(f"- {json.dumps(one)}\n" for one in pods)]
        data = "".join(lines).encode()
    line = data[: data.index(b'"much"')].count(b"\n") + 1
    with pytest.raises(ManifestError) as caught:
        found(data)
    assert str(caught.value).startswith(
        f"pods.json:{line}: items[1700].spec.containers[0].resources.limits.memory: 'much' "
    )


def test_lines_of_values_are_those_of_the_file():
    data = listed(map(pod, range(2_000)))
    last = found(data)[-1]
    line = data[: data.rindex(b'"memory"')].count(b"\n") + 1
    assert last.containers[0].origin["limits.memory"] == f"pods.json:{line}"


@pytest.mark.parametrize(("data", "says"), [
    (listed([{"metadata": {}}]), "items[0].metadata.name: a Pod needs a name."),
    (listed([{**pod(1), "kind": "Pods"}]), "items[0].kind: there is no Pods in v1. Did you mean 'Pod'?"),
    (listed([7]), "pods.json:4: items[0]: expected an object"),
    (listed([pod(1), {**pod(2), "kind": ""}]), "items[1].kind: kind is not set."),
    (listed([pod(1), {"metadata": {"name": "b"}, "spec": pod(2)["spec"]}]), "items[1].kind: kind is not set"),
    (listed([pod(1)], kind="Deployment"), "no Deployment in v1. The API version of a Deployment is apps/v1."),
    (listed([{"metadata": {"name": "n1"}}], kind="NodeList"), "items[0].spec: a Pod needs spec."),
    (b'{"kind": "Deployment", "apiVersion": "apps/v1", "items": [1]}', "items: unknown field 'items'."),
    (b'{"kind": "List", "apiVersion": "v1", "items": {}}', "items: expected a list of objects."),
    (b'{"kind": "List", "apiVersion": "v1"}', "items: expected a list of objects."),
    (listed([pod(1)])[:-40], "this is not YAML"),
    (listed(map(pod, range(200)))[:-1_000] + b"\xff", " is not UTF-8 (0xff)."),
    (listed([pod(1, annotations={"a": "y" * (4 << 20)})]), "one object has more than 3145728 bytes"),
    (json.dumps({"items": [[7] * 200_001]}).encode(), "expands to more than 200000 values"),
])  # fmt: skip
def test_refused_lists(data, says):
    with pytest.raises(ManifestError) as caught:
        found(data)
    assert says in str(caught.value)


def test_the_pods_of_a_pod_list_need_no_kind():
    bare = [{name: value for name, value in pod(number).items() if name in {"metadata", "spec"}} for number in range(3)]
    assert [one.name for one in found(listed(bare, kind="PodList"))] == ["web-0", "web-1", "web-2"]
    first = {"kind": "PodList", "apiVersion": "v1", "items": bare}
    assert len(found(json.dumps(first).encode())) == 3


def test_several_lists_in_one_stream():
    parts = [listed(map(pod, range(2))), listed([pod(7)]), json.dumps(pod(9)).encode()]
    assert [one.name for one in found(b"\n---\n".join(parts))] == ["web-0", "web-1", "web-7", "web-9"]


def test_anchors_reach_from_one_object_to_the_next():
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: &same {containers: [{name: c}]}}\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: *same}\n"
    )
    assert [(one.name, one.containers[0].name) for one in found(text.encode())] == [("a", "c"), ("b", "c")]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_character_may_come_in_pieces(size):
    class Drop(io.BytesIO):
        def read(self, _size=-1):
            return super().read(size)

    data = b"\xef\xbb\xbf" + json.dumps(pod(1, annotations={"a": "é水😀"}), ensure_ascii=False).encode()
    assert [one.name for one in pods_in(Drop(data), "pods.json")] == ["web-1"]
    with pytest.raises(ManifestError, match=rf"byte {len(data) - 4} is not UTF-8 \(0xf0\)"):
        list(pods_in(Drop(data[:-4] + b"\xf0ab"), "pods.json"))


@pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n", " \n"])
def test_consecutive_json_objects(between):
    """As `jq -c '.items[]'` prints them; each has its own line."""
    data = between.join(json.dumps(pod(number)) for number in range(500)).encode()
    pods = found(data)
    assert [one.name for one in pods] == [f"web-{number}" for number in range(500)]
    line = data[: data.rindex(b'"memory"')].count(b"\n") + 1
    assert pods[-1].containers[0].origin["limits.memory"] == f"pods.json:{line}"


def test_json_objects_in_pieces_of_any_size():
    class Drops(io.BytesIO):
        def read(self, size=-1, /):
            del size
            return super().read(1)

    data = "\n".join(json.dumps(pod(number)) for number in range(3)).encode()
    assert [one.name for one in pods_in(Drops(data), "pods.json")] == ["web-0", "web-1", "web-2"]


def test_blanks_after_an_object_are_not_kept():
    assert [one.name for one in found(json.dumps(pod(1)).encode() + b"\n" * 2_000_000)] == ["web-1"]
