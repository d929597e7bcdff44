"""The pods of one node, and some pods and containers alone."""

import json

import pytest


def cluster(tmp_path):
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": node},
            "status": {"phase": phase},
        }
        for name, node, phase in (
            ("a", "n1", "Running"), ("b", "n2", "Running"), ("c", "n1", "Failed"), ("d", "n1", "Succeeded"),
            ("e", "", "Pending"), ("f", "n1", "Pending"),
        )
    ]  # fmt: skip
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}))
    return str(path)


def test_the_pods_of_one_node_out_of_a_cluster(told, tmp_path):
    path = cluster(tmp_path)
    code, out, err = told(path, "--kubernetes", "1.36", "--node-name", "n1", "--json")
    assert (code, [pod["name"] for pod in json.loads(out)["pods"]]) == (0, ["a", "f"])
    assert err.splitlines() == [
        "memqos: note: 2 pods have ended (status.phase Succeeded or Failed), and are left out: they have no cgroups.",
        "memqos: note: 1 pod has not been bound to a node yet, and is left out: it has no cgroups.",
    ]
    code, out, err = told(path, "--kubernetes", "1.36", "--json")
    assert (code, [pod["name"] for pod in json.loads(out)["pods"]]) == (0, ["a", "b", "f"])
    assert err.splitlines()[-1] == (
        "memqos: note: these pods are bound to 2 nodes and are planned as if they were on one; --node-name selects one."
    )


def test_a_node_without_pods_is_none(told, tmp_path):
    code, _, err = told(cluster(tmp_path), "--kubernetes", "1.36", "--node-name", "n3")
    assert (code, "there is no node with pods 'n3'." in err, "Known: n1, n2." in err) == (4, True, True)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    (tmp_path / "done.json").write_text(json.dumps({**pod, "status": {"phase": "Failed"}}))
    code, _, err = told(str(tmp_path / "done.json"), "--kubernetes", "1.36")
    assert (code, "none of the pods has cgroups" in err) == (4, True)


def namesakes(tmp_path):
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": own} for own in containers]},
        }
        for namespace, name, containers in (
            ("blue", "web-1", ("app", "proxy")), ("blue", "web-2", ("app",)), ("red", "web-1", ("app", "log")),
            ("red", "cache", ("store",)),
        )
    ]  # fmt: skip
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}))
    return str(path)


@pytest.mark.parametrize(("chosen", "shown"), [
    (["--pod", "web-2"], ["blue/web-2", "app"]),
    (["--pod", "red/web-1"], ["red/web-1", "app", "log"]),
    (["--pod", "blue/*"], ["blue/web-1", "app", "proxy", "blue/web-2", "app"]),
    (["--pod", "cache", "--pod", "web-2"], ["blue/web-2", "app", "red/cache", "store"]),
    (["--pod", "web-1", "--container", "l?g"], ["red/web-1", "log"]),
    (["--container", "proxy"], ["blue/web-1", "proxy"]),
])  # fmt: skip
def test_some_pods_and_containers_alone(told, tmp_path, chosen, shown):
    code, out, err = told(namesakes(tmp_path), "--kubernetes", "1.36", *chosen)
    heads = [line for line in out.splitlines()[2:] if line.startswith(("pod ", "  container ")) or line[:1].isalpha()]
    words = [head.split()[1].removeprefix("default/") for head in heads]
    assert (code, err, words) == (0, "", shown)
    code, out, _ = told(namesakes(tmp_path), "--kubernetes", "1.36", "--json", *chosen)
    found = []
    for pod in json.loads(out)["pods"]:
        found += [f"{pod['namespace']}/{pod['name']}", *(one["name"] for one in pod["containers"])]
    assert (code, found) == (0, shown)


def test_a_container_alone_has_its_files_and_no_others(told, tmp_path):
    path = namesakes(tmp_path)
    code, out, _ = told(path, "--kubernetes", "1.36", "--pod", "red/web-1", "--container", "log", "--why", "cpu.weight")
    assert (code, [line for line in out.splitlines() if line.startswith("cpu.weight of ")]) == (
        0, ["cpu.weight of container log of pod red/web-1: 1"]
    )  # fmt: skip
    code, out, _ = told(path, "--kubernetes", "1.36", "--container", "log", "--protection")
    assert [line for line in out.splitlines() if line.startswith(("container", "pod", "kube"))] == [
        "container log of pod red/web-1"
    ]
    code, out, _ = told(path, "--diff", "1.22", "1.36", "--container", "log")
    subjects = {line for line in out.splitlines() if line and not line.startswith((" ", "1.22"))}
    # The sandbox's request belongs to the pod, and is there for every container.
    assert (code, subjects) == (0, {"container log of pod red/web-1", "pod red/web-1"})


@pytest.mark.parametrize(("chosen", "says"), [
    (["--pod", "web-3"], "--pod: there is no pod 'web-3'."),
    (["--pod", "green/web-1"], "--pod: there is no pod 'green/web-1'."),
    (["--container", "ap"], "--container: there is no container 'ap'."),
    (["--pod", ""], "--pod: there is no pod ''."),
])  # fmt: skip
def test_names_without_a_match(told, tmp_path, chosen, says):
    code, out, err = told(namesakes(tmp_path), "--kubernetes", "1.36", *chosen)
    assert (code, out, says in err) == (4, "", True)


def test_a_resize_is_not_narrowed(told, tmp_path):
    path = namesakes(tmp_path)
    code, _, err = told(path, "--kubernetes", "1.36", "--resize", path, "--pod", "web-1")
    assert (code, "leave out --pod and --container" in err) == (4, True)
