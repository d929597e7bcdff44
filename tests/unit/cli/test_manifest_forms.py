"""`memqos expect` and `memqos audit` with all input that kubectl accepts."""

import io
import json
from types import SimpleNamespace

import pytest

from memqos.cli.main import run

DEPLOYMENT = """\
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        resources: {requests: {cpu: 500m, memory: 128Mi}}
"""


@pytest.fixture
def told(capsys):
    """Run memqos with these arguments: the exit code, and both outputs."""

    def tell(*arguments):
        code = run([*arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


@pytest.fixture
def web(tmp_path):
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    return str(tmp_path)


def weight(out):
    """cpu.weight of the burstable class, which is a sum over its pods."""
    cgroups = {one["path"]: one["knobs"] for one in json.loads(out)["cgroups"]}
    return cgroups["/kubepods/burstable"]["cpu.weight"]["value"]


@pytest.mark.parametrize(("more", "value", "pods"), [((), 59, 3), (("--replicas", "1"), 20, 1)])
def test_replicas_count_for_the_sums_of_the_node(told, web, more, value, pods):
    code, out, err = told("expect", web, "--kubernetes", "1.36", "--json", "--weight", "linear", *more)
    assert code == 0
    assert err == "memqos: note: ignored, since they neither create nor change pods: ConfigMap (1), Service (1).\n"
    assert weight(out) == str(value)
    assert out.count('"container": "app"') == pods


def test_why_names_the_line_of_the_template(told, web):
    why = ("--set", "featureGates.MemoryQoS=true", "--why", "memory.high", "--pod", "web-2")
    code, out, _ = told("expect", web, "--kubernetes", "1.36", *why)
    assert code == 0
    assert f"[{web}/web.yaml:20]" in out


def test_standard_input(told, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(DEPLOYMENT.encode())))
    code, out, _ = told("expect", "-", "--kubernetes", "1.36")
    assert (code, out.count("\npod default/web-")) == (0, 3)


def test_a_resize_of_a_deployment(told, web, tmp_path):
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(DEPLOYMENT.replace("128Mi", "256Mi"))
    code, out, _ = told("expect", web, "--kubernetes", "1.36", "--resize", str(wanted))
    assert code == 0
    assert all(f"default/web-{number}" in out for number in (1, 2, 3))


@pytest.mark.parametrize(("arguments", "says"), [
    (("--replicas", "many"), "--replicas: 'many' is not a number of pods from 0 to 10000."),
    (("--replicas", "10001"), "is not a number"),
    (("--replicas", "web=-1"), "is not a number"),
    (("--replicas", "api=1"), "there is no workload with replicas 'default/api'."),
    (("--replicas", "0"), "nothing to plan: no pods of Deployment default/web."),
])  # fmt: skip
def test_replicas_that_cannot_be(told, web, arguments, says):
    code, out, err = told("expect", web, "--kubernetes", "1.36", *arguments)
    assert (code, out) == (4, "")
    assert says in err


def test_a_node_without_bound_pods(told, web):
    code, _, err = told("expect", web, "--kubernetes", "1.36", "--node-name", "n1")
    assert (code, "Known: none." in err) == (4, True)


def test_a_workload_without_pods_among_others(told, web, tmp_path):
    (tmp_path / "db.yaml").write_text(DEPLOYMENT.partition("---\n")[2].replace("name: web}", "name: db}"))
    code, out, err = told("expect", web, "--kubernetes", "1.36", "--replicas", "team/db=0")
    assert (code, out) == (4, "")
    code, out, err = told("expect", web, "--kubernetes", "1.36", "--replicas", "db=0")
    assert code == 0
    assert "memqos: note: no pods of Deployment default/db.\n" in err
    assert "default/db" not in out


def test_a_folder_without_manifests(told, tmp_path):
    (tmp_path / "service.yaml").write_text(DEPLOYMENT.partition("---\n")[0])
    code, out, err = told("expect", str(tmp_path), "--kubernetes", "1.36")
    assert (code, out) == (4, "")
    assert "the input has no pod and no object that makes pods: Service." in err


def test_many_kinds_are_one_note(told, web, tmp_path):
    kinds = "---\n".join(f"apiVersion: x/v1\nkind: Widget{number:02}\n" for number in range(20))
    (tmp_path / "widgets.yaml").write_text(kinds)
    _, _, err = told("expect", web, "--kubernetes", "1.36")
    harmless, unknown = err.splitlines()
    assert harmless.endswith("since they neither create nor change pods: ConfigMap (1), Service (1).")
    assert unknown.endswith(
        ", Widget11 (1) and 8 more kinds: memqos does not know it: it may make pods, or change their requests."
    )


SMALL = """\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {{containers: [{{name: app, image: i, resources: {{limits: {{memory: 128Ki}}}}}}]}}
"""


@pytest.mark.parametrize("pods", [3, 4, 2000])
def test_equal_notes_on_many_pods_are_merged(told, tmp_path, pods):
    file = tmp_path / "many.yaml"
    file.write_text("".join(SMALL.format(name=f"p{number}") for number in range(pods)))

    code, out, err = told("expect", "--kubernetes", "1.36", "--json", str(file))

    first = f"memqos: note: {file}:5: limits.memory of container app of pod default/p0: 128Ki is 131072 bytes: "
    assert code == 0
    assert err.startswith(first)
    if pods == 3:
        assert err.count("\n") == 3
    else:
        assert (
            err
            == f"{first}no container starts with so little. The same holds for {pods - 1} more; --json lists them.\n"
        )
    assert len(json.loads(out)["remarks"]) == pods
