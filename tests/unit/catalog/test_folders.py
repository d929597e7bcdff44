"""Files and folders as in kubectl, with each pod once."""

import json

import pytest

from memqos.catalog.pods import load_manifests, load_pods
from memqos.catalog.workloads import Replicas
from memqos.errors import ManifestError, UnknownNameError, UsageError

SPEC = "spec: {containers: [{name: c}]}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"


def pod(name, **meta):
    return f"apiVersion: v1\nkind: Pod\nmetadata: {json.dumps({'name': name, **meta})}\n{SPEC}"


def scaled(kind, name="web", replicas=1, **meta):
    body = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}}
    if kind == "DaemonSet":
        del body["replicas"]
    body["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    return json.dumps({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, **meta}, "spec": body}) + "\n"


def controlled(kind, name="web"):
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}]}


@pytest.fixture
def folder(tmp_path):
    """Write files (path: text) into a folder."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def names(*paths, **how):
    return [one.name for one in load_manifests(paths, **how).pods]


def test_the_manifests_of_a_folder_by_name(folder):
    place = folder({"b.yaml": pod("b"), "a.json": pod("a"), "c.yml": pod("c"), "d.txt": "{{", "e/f.yaml": pod("f")})
    assert names(place) == ["a", "b", "c"]
    assert names(place, recursive=True) == ["a", "b", "c", "f"]


def test_skipped_files_of_a_folder(folder):
    place = folder(
        {"a.yaml": f"{pod('a')}---\n{SERVICE}", "values.yaml": "image: x\nitems: [{a: 1}]\n", "empty.yml": ""}
    )
    found = load_manifests([place])
    assert [one.name for one in found.pods] == ["a"]
    assert {one.kind: one.count for one in found.others} == {"Service": 1, "": 1}


def test_the_same_files_when_they_are_named(folder):
    place = folder({"values.yaml": "image: x\n", "empty.yaml": "", "none.txt": pod("a")})
    assert names(place / "none.txt") == ["a"]
    with pytest.raises(ManifestError, match="kind is not set"):
        load_pods([place / "values.yaml"])
    with pytest.raises(ManifestError, match="it contains no object"):
        load_pods([place / "empty.yaml"])


@pytest.mark.parametrize(("files", "recursive", "says"), [
    ({"a.txt": "x", "b/c.yaml": pod("a")}, False, "has no file .* -R reads"),
    ({"a.txt": "x"}, True, r"has no file whose name ends in .json, .yaml or .yml.$"),
    ({"a.yaml": SERVICE, "b.yaml": "x: 1"}, False, "the input has no pod .*: Service. Give a Pod"),
    ({"a.yaml": ""}, False, "the input has no pod and no object that makes pods. Give"),
])  # fmt: skip
def test_a_folder_without_pods(folder, files, recursive, says):
    with pytest.raises(UsageError, match=says):
        load_manifests([folder(files)], recursive=recursive)


def test_a_refused_file_of_a_folder_names_the_others(folder):
    wrong = {f"{name}.yaml": f"kind: Pod\napiVersion: v1\nmetadata: {{name: {name}}}\n" for name in "abc"}
    place = folder({**wrong, "d.yaml": pod("d"), "e.yaml": "name: {{ .Values.name }}\n"})
    with pytest.raises(ManifestError) as caught:
        load_manifests([place])
    assert str(caught.value).startswith(f"{place}/a.yaml:1: spec: a Pod needs spec. Refused too: {place}/b.yaml:1, ")
    assert str(caught.value).endswith(f"{place}/e.yaml:1.")
    with pytest.raises(ManifestError, match="a line of a template: give its output"):
        load_manifests([place / "e.yaml"])


def test_some_of_many_refused_files_are_named(folder):
    place = folder({f"{number:02}.yaml": "kind: Pod\napiVersion: v1\n" for number in range(20)})
    with pytest.raises(ManifestError, match=r"12\.yaml:1 and 7 more\.$"):
        load_manifests([place])


def test_a_folder_with_a_link_to_itself(folder):
    place = folder({"a/b.yaml": pod("b")})
    (place / "a" / "again").symlink_to(place)
    assert names(place, recursive=True) == ["b"]


def test_invented_names_avoid_real_ones(folder):
    texts = [scaled("Deployment", replicas=2), scaled("DaemonSet"), scaled("StatefulSet", replicas=2), pod("web-2")]
    texts += [pod("web-deployment-1")]
    place = folder({"a.yaml": "---\n".join(texts)})
    expected = ["web-deployment-1-2", "web-deployment-2", "web-daemonset-1", "web-0", "web-1", "web-2"]
    assert names(place) == [*expected, "web-deployment-1"]
    assert len({one.uid for one in load_pods([place])}) == 7


@pytest.mark.parametrize(("texts", "says"), [
    ([scaled("Deployment"), scaled("Deployment")], "the Deployment default/web is already defined in"),
    ([scaled("StatefulSet"), pod("web-0")], "the pod default/web-0 .* is already defined in"),
    ([pod("a", uid="u"), pod("b", uid="u")], "the pod default/b .uid u. is already defined in"),
])  # fmt: skip
def test_nothing_is_given_twice(folder, texts, says):
    with pytest.raises(ManifestError, match=says):
        load_manifests([folder({"a.yaml": "---\n".join(texts)})])


def test_a_cluster_list_with_controllers_and_their_pods(folder):
    """As from `kubectl get all -o yaml`: each pod is planned once."""
    texts = [
        pod("web-5d9c7b-abcde", **controlled("ReplicaSet", "web-5d9c7b")),
        scaled("Deployment"),
        scaled("ReplicaSet", "web-5d9c7b", **controlled("Deployment")),
        scaled("ReplicaSet", "web-old", replicas=0, **controlled("Deployment")),
        scaled("DaemonSet", "web"),
    ]
    assert names(folder({"a.yaml": "---\n".join(texts)})) == ["web-5d9c7b-abcde", "web-1"]


def test_replicas_of_one_workload(folder):
    place = folder({"a.yaml": f"{scaled('Deployment', replicas=9)}---\n{scaled('StatefulSet', 'db', replicas=3)}"})
    said = Replicas(every=1, named={("default", "db"): 2})
    assert names(place, replicas=said) == ["web-1", "db-0", "db-1"]
    idle = load_manifests([place], replicas=Replicas(named={("default", "web"): 0}))
    assert [str(one) for one in idle.idle] == ["Deployment default/web"]
    with pytest.raises(UnknownNameError, match="no workload with replicas 'default/wbe'"):
        load_manifests([place], replicas=Replicas(named={("default", "wbe"): 2}))
