"""The API stand-in: the part of a Kubernetes API server that one kubelet calls, over plain HTTP on 127.0.0.1.

A test double. It stores objects, lists and watches them, and merges the patches that a kubelet sends. It validates
nothing, defaults nothing, admits everything, knows no users, and serves JSON alone; resources that `KINDS` does not
list are 404. The resize subresource is a replacement of the pod's spec by `Store.put`, as a kubelet sees one.

This file runs in the machine, so it needs Python 3.9 and its standard library alone.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import http.server
import json
import threading
import time
import urllib.parse
from typing import Any, Iterator, Mapping  # noqa: UP035 - Python 3.9 evaluates some of them

__all__ = ["KINDS", "ApiServer", "Store", "merged"]

Object = dict[str, Any]

KINDS: Mapping[tuple[str, str], str] = {
    ("v1", "configmaps"): "ConfigMap",
    ("v1", "events"): "Event",
    ("v1", "namespaces"): "Namespace",
    ("v1", "nodes"): "Node",
    ("v1", "persistentvolumeclaims"): "PersistentVolumeClaim",
    ("v1", "persistentvolumes"): "PersistentVolume",
    ("v1", "pods"): "Pod",
    ("v1", "secrets"): "Secret",
    ("v1", "serviceaccounts"): "ServiceAccount",
    ("v1", "services"): "Service",
    ("certificates.k8s.io/v1alpha1", "clustertrustbundles"): "ClusterTrustBundle",
    ("certificates.k8s.io/v1beta1", "clustertrustbundles"): "ClusterTrustBundle",
    ("certificates.k8s.io/v1beta1", "podcertificaterequests"): "PodCertificateRequest",
    ("certificates.k8s.io/v1", "podcertificaterequests"): "PodCertificateRequest",
    ("coordination.k8s.io/v1", "leases"): "Lease",
    ("events.k8s.io/v1", "events"): "Event",
    ("node.k8s.io/v1", "runtimeclasses"): "RuntimeClass",
    ("resource.k8s.io/v1", "resourceclaims"): "ResourceClaim",
    ("resource.k8s.io/v1", "resourceslices"): "ResourceSlice",
    ("resource.k8s.io/v1beta1", "resourceslices"): "ResourceSlice",
    ("storage.k8s.io/v1", "csidrivers"): "CSIDriver",
    ("storage.k8s.io/v1", "csinodes"): "CSINode",
    ("storage.k8s.io/v1", "volumeattachments"): "VolumeAttachment",
}
"""The kind of each resource that is served, by group and version and the resource's name."""

_MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "hostIPs": "ip",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "taints": "key",
}
"""The lists that a strategic merge patch merges by a key, in the types that a kubelet patches (k8s.io/api, v1)."""

_PRIMITIVE_LISTS = frozenset({"finalizers"})
_KEPT_EVENTS = 500
_WATCH_SECONDS = 300


def merged(old: Any, patch: Any) -> Any:
    """The result of a strategic merge patch; the input object stays unchanged, and shares what the patch leaves.

    Directives: `$patch` (delete, replace), `$setElementOrder/…`, `$retainKeys` and `$deleteFromPrimitiveList/…`.
    """
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result = dict(old) if isinstance(old, dict) else {}
    if "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [one for one in result.get(name) or [] if one not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list) and key in _MERGE_KEYS:
            result[key] = _merged_list(result.get(key) or [], value, _MERGE_KEYS[key])
        elif isinstance(value, list) and key in _PRIMITIVE_LISTS:
            result[key] = [*(result.get(key) or []), *(one for one in value if one not in (result.get(key) or []))]
        else:
            result[key] = merged(result.get(key), value)
    return result


def _merged_list(old: list[Object], patch: list[Object], key: str) -> list[Object]:
    if any(one.get("$patch") == "replace" for one in patch):
        return [one for one in patch if one.get("$patch") != "replace"]
    result = {one.get(key): one for one in old}
    for one in patch:
        if one.get("$patch") == "delete":
            result.pop(one.get(key), None)
        else:
            result[one.get(key)] = merged(result.get(one.get(key)), one)
    return list(result.values())


class Store:
    """All objects of one cluster, by resource, namespace and name, with every change in order.

    No method changes a stored object: it stores a changed copy. So methods return objects that callers must not change.

    calls: the number of calls by verb and resource ("GET pods"); calls that were not served start with "404".
    """

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = {key: {} for key in KINDS}
        self._changes: dict[tuple[str, str], list[tuple[int, str, Object]]] = {key: [] for key in KINDS}
        self._version = 1
        self._lock = threading.RLock()
        # A watch wakes up for its own resource alone: a kubelet watches twenty.
        self._changed = {key: threading.Condition(self._lock) for key in KINDS}
        self._is_ending = False
        self.calls: collections.Counter[str] = collections.Counter()

    @property
    def version(self) -> int:
        """The resource version of the last change."""
        return self._version

    def get(self, resource: tuple[str, str], namespace: str, name: str) -> Object | None:
        """The object, None if there is none."""
        with self._lock:
            return self._objects[resource].get((namespace, name))

    def later(self, resource: tuple[str, str], after: int) -> tuple[list[Object], list[tuple[str, str]], int]:
        """A resource's objects that changed after this version; namespace and name of all; the current version."""
        with self._lock:
            objects = self._objects[resource]
            changed = [one for one in objects.values() if int(one["metadata"]["resourceVersion"]) > after]
            return changed, list(objects), self._version

    def put(self, resource: tuple[str, str], item: Object) -> Object:
        """Create or replace an object. A changed spec increments metadata.generation."""
        with self._lock:
            item = copy.deepcopy(item)
            meta = item.setdefault("metadata", {})
            key = (meta.get("namespace", ""), meta.get("name", ""))
            before = self._objects[resource].get(key)
            if before is None:
                meta.setdefault("uid", f"memqos-{self._version}")
                meta.setdefault("creationTimestamp", _now())
                meta.setdefault("generation", 1)
            else:
                meta.setdefault("uid", before["metadata"]["uid"])
                meta["creationTimestamp"] = before["metadata"]["creationTimestamp"]
                moved = before.get("spec") != item.get("spec")
                meta["generation"] = before["metadata"].get("generation", 1) + moved
            item["apiVersion"], item["kind"] = resource[0], KINDS[resource]
            self._keep(resource, key, "ADDED" if before is None else "MODIFIED", item)
            return item

    def patch(self, resource: tuple[str, str], namespace: str, name: str, change: Object) -> Object | None:
        """The object with a strategic merge patch; None if there is none."""
        with self._lock:
            before = self._objects[resource].get((namespace, name))
            if before is None:
                return None
            # The version of the object that a kubelet has patched: put sets the next one.
            return self.put(resource, merged(before, change))

    def delete(self, resource: tuple[str, str], namespace: str, name: str, *, grace: int = 0) -> Object | None:
        """Remove an object; None if there is none.

        grace: seconds; a pod with a grace period is marked, so that its kubelet ends it.
        """
        with self._lock:
            item = self._objects[resource].get((namespace, name))
            if item is None:
                return None
            item = copy.deepcopy(item)
            if grace and resource == ("v1", "pods"):
                item["metadata"]["deletionTimestamp"] = _now(grace)
                item["metadata"]["deletionGracePeriodSeconds"] = grace
                self._keep(resource, (namespace, name), "MODIFIED", item)
            else:
                self._keep(resource, (namespace, name), "DELETED", item)
                del self._objects[resource][namespace, name]
            return item

    def _keep(self, resource: tuple[str, str], key: tuple[str, str], what: str, item: Object) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._objects[resource][key] = item
        self._changes[resource].append((self._version, what, item))
        if KINDS[resource] == "Event" and len(self._objects[resource]) > _KEPT_EVENTS:
            del self._objects[resource][next(iter(self._objects[resource]))]
        self._changed[resource].notify_all()

    @property
    def is_ending(self) -> bool:
        """Whether `end` was called."""
        return self._is_ending

    def end(self) -> None:
        """Let every call of `changes` return at once, now and later."""
        with self._lock:
            self._is_ending = True
            for changed in self._changed.values():
                changed.notify_all()

    def listed(self, resource: tuple[str, str]) -> tuple[list[Object], int]:
        """All objects of a resource, and the current version."""
        with self._lock:
            return list(self._objects[resource].values()), self._version

    def changes(self, resource: tuple[str, str], after: int, seconds: float) -> tuple[list[tuple[str, Object]], int]:
        """The events of a resource after this version, and the version of the last one.

        seconds: how long to wait for a change.
        """
        changed, changes, later = self._changed[resource], self._changes[resource], list[tuple[str, Object]]()
        with changed:
            changed.wait_for(lambda: self._is_ending or (changes and changes[-1][0] > after), timeout=seconds)
            for version, what, item in reversed(changes):
                if version <= after:
                    break
                later.append((what, item))
            return later[::-1], self._version


def _now(later: int = 0) -> str:
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=later)  # noqa: UP017
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Wanted:
    """The object or collection in a request's path. sub: the subresource, "" for the object itself."""

    def __init__(self, path: str) -> None:
        url = urllib.parse.urlsplit(path)
        parts = [urllib.parse.unquote(one) for one in url.path.split("/") if one]
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.version, rest = ("", [])
        if parts[:1] == ["api"]:
            self.version, rest = "/".join(parts[1:2]), parts[2:]
        elif parts[:1] == ["apis"]:
            self.version, rest = "/".join(parts[1:3]), parts[3:]
        self.namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":  # noqa: PLR2004 - namespaces/NAME/RESOURCE
            self.namespace, rest = rest[1], rest[2:]
        self.resource = (self.version, rest[0] if rest else "")
        self.name = rest[1] if len(rest) > 1 else ""
        self.sub = rest[2] if len(rest) > 2 else ""  # noqa: PLR2004 - RESOURCE/NAME/SUB

    def takes(self, item: Object) -> bool:
        """Whether a list or watch includes this object, by namespace and field selector."""
        meta = item["metadata"]
        if self.namespace and meta.get("namespace", "") != self.namespace:
            return False
        for one in filter(None, self.query.get("fieldSelector", "").split(",")):
            field, _, value = one.partition("=")
            found: Any = item
            for name in field.split("."):
                found = found.get(name, "") if isinstance(found, dict) else ""
            if found != value.lstrip("="):
                return False
        return True


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection of the kubelet."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Otherwise each body waits for the client's delayed acknowledgement of the headers, 40 ms."""
    server: "ApiServer"  # noqa: UP037 - defined below

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: calls are counted."""

    def _wanted(self) -> _Wanted | None:
        wanted = _Wanted(self.path)
        served = wanted.resource in KINDS
        what = f"{self.command} {wanted.resource[1] or self.path}{f'/{wanted.sub}' if wanted.sub else ''}"
        self.server.store.calls[what if served else f"404 {what}"] += 1
        if served:
            return wanted
        self._body()
        self._refuse(404, "NotFound", f"the API stand-in does not serve {self.path}")
        return None

    def _body(self) -> Any:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(text) if text else {}

    def _answer(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
        self._answer({**status, "message": message, "metadata": {}}, code)

    def _found(self, wanted: _Wanted, item: Object | None) -> None:
        if item is None:
            self._refuse(404, "NotFound", f"{wanted.resource[1]} {wanted.name!r} not found")
        else:
            self._answer(item)

    def do_GET(self) -> None:
        """One object, a list, or a watch."""
        if self.path.startswith(("/version", "/healthz", "/livez", "/readyz")):
            self._answer({"major": "1", "minor": "0", "gitVersion": "v1.0.0-memqos"})
            return
        wanted = self._wanted()
        if wanted is None:
            return
        store = self.server.store
        if wanted.name:
            self._found(wanted, store.get(wanted.resource, wanted.namespace, wanted.name))
        elif wanted.query.get("watch") in {"true", "1"}:
            with contextlib.suppress(OSError):
                self._watch(wanted)
        else:
            items, version = store.listed(wanted.resource)
            kind = f"{KINDS[wanted.resource]}List"
            meta = {"resourceVersion": str(version)}
            body = {"kind": kind, "apiVersion": wanted.version, "metadata": meta}
            self._answer({**body, "items": [one for one in items if wanted.takes(one)]})

    def _watch(self, wanted: _Wanted) -> None:
        """Send events in chunks until the client's timeout, or until the client or the server ends."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        store = self.server.store
        ends = time.monotonic() + int(wanted.query.get("timeoutSeconds") or _WATCH_SECONDS)
        since = int(wanted.query.get("resourceVersion") or 0)
        initial = wanted.query.get("sendInitialEvents") == "true"
        if initial or since == 0:
            items, since = store.listed(wanted.resource)
            for item in filter(wanted.takes, items):
                self._event("ADDED", item)
        if initial:
            mark = {"k8s.io/initial-events-end": "true"}
            self._event("BOOKMARK", self._bookmark(wanted, since, mark))
        while (left := ends - time.monotonic()) > 0 and not store.is_ending:
            found, since = store.changes(wanted.resource, since, left)
            for what, item in found:
                if wanted.takes(item):
                    self._event(what, item)
        self.wfile.write(b"0\r\n\r\n")

    def _bookmark(self, wanted: _Wanted, version: int, annotations: Mapping[str, str]) -> Object:
        meta = {"resourceVersion": str(version), "annotations": dict(annotations)}
        return {"kind": KINDS[wanted.resource], "apiVersion": wanted.version, "metadata": meta}

    def _event(self, what: str, item: Object) -> None:
        data = json.dumps({"type": what, "object": item}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def do_POST(self) -> None:
        """Create an object; 409 if it exists."""
        wanted = self._wanted()
        if wanted is None:
            return
        item = self._body()
        if wanted.sub:
            self._refuse(404, "NotFound", f"the API stand-in does not serve {self.path}")
            return
        meta = item.setdefault("metadata", {})
        if wanted.namespace:
            meta["namespace"] = wanted.namespace
        if not meta.get("name"):
            meta["name"] = f"{meta.get('generateName', '')}{self.server.store.version}"
        if self.server.store.get(wanted.resource, meta.get("namespace", ""), meta["name"]) is not None:
            self._refuse(409, "AlreadyExists", f"{wanted.resource[1]} {meta['name']!r} already exists")
            return
        self._answer(self.server.store.put(wanted.resource, item), 201)

    def do_PUT(self) -> None:
        """Replace an object."""
        wanted = self._wanted()
        if wanted is None:
            return
        item = self._body()
        if self.server.store.get(wanted.resource, wanted.namespace, wanted.name) is None:
            self._found(wanted, None)
            return
        self._answer(self.server.store.put(wanted.resource, item))

    def do_PATCH(self) -> None:
        """Merge a patch into an object."""
        wanted = self._wanted()
        if wanted is not None:
            change = self._body()
            if isinstance(change, list):
                self._refuse(415, "UnsupportedMediaType", "the API stand-in takes no JSON patches")
                return
            self._found(wanted, self.server.store.patch(wanted.resource, wanted.namespace, wanted.name, change))

    def do_DELETE(self) -> None:
        """Remove an object at once, as a kubelet requests when a pod's containers are gone."""
        wanted = self._wanted()
        if wanted is not None:
            self._body()
            self._found(wanted, self.server.store.delete(wanted.resource, wanted.namespace, wanted.name))


class ApiServer(http.server.ThreadingHTTPServer):
    """Serves a store on a free port of 127.0.0.1; `serving` runs it."""

    daemon_threads = True

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store or Store()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @contextlib.contextmanager
    def serving(self) -> Iterator["ApiServer"]:  # noqa: UP037
        """While the context lasts, a thread answers."""
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.store.end()
            self.shutdown()
            self.server_close()
            thread.join()
