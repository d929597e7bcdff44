import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from memqos.catalog.data import data_root
from memqos.catalog.pods import load_pod_catalog, load_pods
from memqos.engine.pod.qos import pod_qos
from memqos.errors import ManifestError, UsageError
from memqos.model.pod import ContainerKind, QosClass

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c}}]}}\n"


def test_catalogue_holds_every_shape():
    pods = {pod.name: pod for pod in load_pod_catalog()}
    assert len(pods) >= 14
    assert set(pods) >= {
        "guaranteed-one", "guaranteed-two", "limits-only", "requests-only", "cpu-only", "memory-equal-cpu-not",
        "burstable", "mixed", "init-larger", "sidecar", "odd-bytes", "explicit-zero", "best-effort", "with-overhead",
    }  # fmt: skip
    classes = {name: pod_qos(pod, pod_level=False) for name, pod in pods.items()}
    assert classes["guaranteed-one"] is classes["limits-only"] is classes["with-overhead"] is QosClass.GUARANTEED
    assert classes["memory-equal-cpu-not"] is classes["explicit-zero"] is classes["mixed"] is QosClass.BURSTABLE
    assert classes["best-effort"] is QosClass.BEST_EFFORT
    assert pods["sidecar"].init_containers[0].kind is ContainerKind.SIDECAR
    assert pods["explicit-zero"].containers[0].resources.requests["memory"].is_zero
    assert pods["with-overhead"].overhead
    assert {pod.submission for pod in pods.values()} == {None}


def test_catalogue_fits_one_machine():
    """All of its pods fit together in a machine of 2 GiB, and no limit is too small for a runtime's start."""
    pods = load_pod_catalog()
    assert len({pod.uid for pod in pods}) == len(pods)
    for pod in pods:
        for container in pod.all_containers:
            assert container.image == "memqos.local/memload:1"
            limit = container.resources.limits.get("memory")
            assert limit is None or limit.value >= 32 << 20


@pytest.mark.parametrize("path", sorted((data_root() / "fixtures/pods").rglob("*.yaml")), ids=lambda path: path.stem)
def test_no_limit_of_cpu_makes_a_start_slow(path):
    """A runtime's work inside a container before its program starts counts against the container's quota."""
    limits = [one.resources.limits.get("cpu") for pod in load_pods([path]) for one in pod.all_containers]
    assert [str(limit) for limit in limits if limit is not None and limit.milli_value < 500] == []


def test_a_program_that_grows_leaves_room_for_the_start_of_the_next_one():
    """The pod's memory.high is 35.2 MiB at a factor of 0.6; starting a container needs some 6 MiB of it."""
    [pod] = load_pods([data_root() / "fixtures/pods/behaviour/grows-together.yaml"])
    sizes = [int(one.args[1].removesuffix("Mi")) for one in pod.containers]
    assert all(size + 8 <= 35 for size in sizes)
    assert sum(sizes) > 36


@pytest.mark.parametrize("path", sorted((data_root() / "fixtures" / "pods").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_file_has_a_purpose(path):
    text = path.read_text()
    assert text.startswith("# ")
    (pod,) = load_pods([path])
    assert pod.name == path.stem


def test_several_files_in_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(POD.format(name=name))
    assert [pod.name for pod in load_pods([tmp_path / "b.yaml", tmp_path / "a.yaml"])] == ["b", "a"]


def test_the_same_pod_twice(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(POD.format(name="a"))
    with pytest.raises(ManifestError, match=r"default/a .* is already defined"):
        load_pods([path, path])


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(POD.format(name="a").encode())))
    (pod,) = load_pods(["-"])
    assert (pod.name, pod.file) == ("a", "standard input")


def test_no_such_file(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        load_pods([tmp_path / "none.yaml"])


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path(tmp_path, kind):
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n"
    )
    assert [pod.name for pod in load_pods(kind(tmp_path / "pod.yaml"))] == ["a"]
