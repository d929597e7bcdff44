"""The API stand-in, as a kubelet calls it: the answers have the form of a real API server's.

Sources: Kubernetes API concepts (watches, bookmarks, sendInitialEvents), the strategic merge patches that kubelets send
(k8s.io/kubernetes pkg/util/pod, pkg/util/node), and k8s.io/apimachinery's table of strategic merge patches.
"""

import json
import queue
import socket
import threading
import urllib.error
import urllib.request

import pytest

from memqos.enactor.kubelet.api_server import ApiServer, Store, merged

PODS, NODES = ("v1", "pods"), ("v1", "nodes")


def pod(name, node="memqos"):
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": {"nodeName": node}}


@pytest.fixture
def server():
    with ApiServer().serving() as served:
        yield served


def call(server, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", data=data, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_node_registers_is_found_and_cannot_register_twice(server):
    assert call(server, "GET", "/api/v1/nodes/memqos")[0] == 404
    status, made = call(server, "POST", "/api/v1/nodes", {"metadata": {"name": "memqos"}, "spec": {}})
    assert (status, made["kind"], made["apiVersion"]) == (201, "Node", "v1")
    status, again = call(server, "POST", "/api/v1/nodes", {"metadata": {"name": "memqos"}})
    assert (status, again["reason"]) == (409, "AlreadyExists")


def test_a_missing_object_is_a_status_of_kind_status(server):
    _, answer = call(server, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/memqos")
    assert (answer["kind"], answer["status"], answer["reason"], answer["code"]) == (
        "Status",
        "Failure",
        "NotFound",
        404,
    )


def test_an_unserved_resource_is_counted_as_such(server):
    assert call(server, "GET", "/apis/example.org/v1/widgets")[0] == 404
    assert server.store.calls == {"404 GET widgets": 1}


def test_a_list_has_its_kind_and_version_and_follows_field_selectors(server):
    for name, node in (("a", "memqos"), ("b", "other")):
        server.store.put(PODS, pod(name, node))
    _, found = call(server, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dmemqos")
    assert found["kind"] == "PodList"
    assert [one["metadata"]["name"] for one in found["items"]] == ["a"]
    assert found["metadata"]["resourceVersion"] == str(server.store.version)


class EndedConnections(ApiServer):
    """A server that tells of each connection that ends whether TCP sends at once (TCP_NODELAY)."""

    def __init__(self):
        super().__init__()
        self.sends_at_once = queue.Queue()

    def shutdown_request(self, request):
        self.sends_at_once.put(bool(request.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        super().shutdown_request(request)


def test_a_body_does_not_wait_for_the_acknowledgement_of_its_headers():
    with EndedConnections().serving() as server:
        call(server, "GET", "/version")
        assert server.sends_at_once.get(timeout=10)


def watched(server, path, count):
    """The first events of a watch."""
    with urllib.request.urlopen(f"{server.url}{path}", timeout=10) as reply:  # noqa: S310
        return [json.loads(reply.readline()) for _ in range(count)]


def test_a_watch_with_initial_events_gets_them_and_then_a_bookmark(server):
    server.store.put(PODS, pod("a"))
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    added, mark = watched(server, f"/api/v1/pods?{query}&timeoutSeconds=5", 2)
    assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_from_a_version_gets_later_changes(server):
    server.store.put(PODS, pod("a"))
    since = server.store.version
    change = threading.Timer(0.2, lambda: server.store.put(PODS, pod("b")))
    change.start()
    [event] = watched(server, f"/api/v1/pods?watch=true&resourceVersion={since}&timeoutSeconds=5", 1)
    change.join()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")


def test_a_watch_gets_the_changes_of_its_resource_alone_and_waits_through_others():
    store = Store()
    store.put(NODES, {"metadata": {"name": "memqos"}})
    store.put(PODS, pod("a"))
    since = store.version
    store.put(NODES, {"metadata": {"name": "memqos", "labels": {"a": "b"}}})
    assert store.changes(PODS, since, 0.01) == ([], since + 1)
    store.put(PODS, pod("b"))
    store.put(PODS, pod("c"))
    found, version = store.changes(PODS, since, 5)
    assert [(what, one["metadata"]["name"]) for what, one in found] == [("ADDED", "b"), ("ADDED", "c")]
    assert version == since + 3


def test_the_end_ends_the_watches_that_wait():
    store = Store()
    change = threading.Timer(0.2, store.end)
    change.start()
    assert store.changes(PODS, store.version, 60) == ([], 1)
    change.join()


def test_a_patch_leaves_the_object_that_was_read_before_it():
    store = Store()
    before = store.put(PODS, {**pod("a"), "status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    store.patch(PODS, "default", "a", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert before["status"]["conditions"] == [{"type": "Ready", "status": "False"}]
    assert store.get(PODS, "default", "a")["status"]["conditions"] == [{"type": "Ready", "status": "True"}]


def test_a_deleted_pod_is_marked_until_the_kubelet_deletes_it(server):
    server.store.put(PODS, pod("a"))
    server.store.delete(PODS, "default", "a", grace=1)
    marked = server.store.get(PODS, "default", "a")["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 1
    assert marked["deletionTimestamp"].endswith("Z")
    assert call(server, "DELETE", "/api/v1/namespaces/default/pods/a")[0] == 200
    assert server.store.get(PODS, "default", "a") is None


def test_a_change_of_the_spec_raises_the_generation_and_one_of_the_status_does_not():
    store = Store()
    store.put(PODS, pod("a"))
    store.patch(PODS, "default", "a", {"status": {"phase": "Running"}})
    assert store.get(PODS, "default", "a")["metadata"]["generation"] == 1
    store.put(PODS, {**store.get(PODS, "default", "a"), "spec": {"nodeName": "memqos", "priority": 1}})
    found = store.get(PODS, "default", "a")
    assert (found["metadata"]["generation"], found["status"]) == (2, {"phase": "Running"})


def test_a_later_list_has_what_has_changed_and_the_names_of_all():
    store = Store()
    for name in ("a", "b", "c"):
        store.put(PODS, pod(name))
    everything, names, version = store.later(PODS, 0)
    assert ([one["metadata"]["name"] for one in everything], names) == (
        ["a", "b", "c"],
        [("default", "a"), ("default", "b"), ("default", "c")],
    )
    store.delete(PODS, "default", "a")
    store.patch(PODS, "default", "c", {"status": {"phase": "Running"}})
    changed, names, later = store.later(PODS, version)
    assert ([one["metadata"]["name"] for one in changed], names) == (["c"], [("default", "b"), ("default", "c")])
    assert store.later(PODS, later) == ([], [("default", "b"), ("default", "c")], later)


def test_earlier_answers_and_events_stay_as_they_were():
    store = Store()
    store.put(PODS, {**pod("a"), "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}})
    [listed], _, _ = store.later(PODS, 0)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.patch(PODS, "default", "a", {"status": ready})
    store.delete(PODS, "default", "a", grace=1)
    events, _ = store.changes(PODS, 1, 0)
    pending = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    assert [item["status"] for _, item in events] == [pending, ready, ready]
    assert ["deletionTimestamp" in item["metadata"] for _, item in events] == [False, False, True]
    assert (listed["status"], listed["metadata"]["resourceVersion"]) == (pending, "2")


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        # A pod's status as a kubelet patches it: conditions merge by type, with their order given.
        (
            {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]},
            {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "Other"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
            {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "True"}]},
        ),
        ({"conditions": [{"type": "A"}]}, {"conditions": [{"type": "A", "$patch": "delete"}]}, {"conditions": []}),
        # Statuses of containers have no merge key: they are replaced.
        (
            {"containerStatuses": [{"name": "a"}, {"name": "b"}]},
            {"containerStatuses": [{"name": "b"}]},
            {"containerStatuses": [{"name": "b"}]},
        ),
        ({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": 3}}, {"b": {"c": 3, "d": 2}}),
        ({"b": {"c": 1, "d": 2}}, {"b": {"$retainKeys": ["c"], "c": 3}}, {"b": {"c": 3}}),
        ({"b": {"c": 1}}, {"b": {"$patch": "replace", "d": 2}}, {"b": {"d": 2}}),
        (
            {"podIPs": [{"ip": "10.0.0.1"}]},
            {"podIPs": [{"ip": "::1"}]},
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]},
        ),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
    ],
)
def test_a_strategic_merge_patch(old, patch, new):
    assert merged(old, patch) == new


def test_a_status_patch_over_http_leaves_the_spec(server):
    server.store.put(PODS, pod("a"))
    path = "/api/v1/namespaces/default/pods/a/status"
    status, found = call(server, "PATCH", path, {"metadata": {"uid": "uid-a"}, "status": {"phase": "Running"}})
    assert (status, found["status"], found["spec"]) == (200, {"phase": "Running"}, {"nodeName": "memqos"})


def test_json_patches_are_refused(server):
    server.store.put(PODS, pod("a"))
    assert call(server, "PATCH", "/api/v1/namespaces/default/pods/a", [{"op": "remove", "path": "/spec"}])[0] == 415
