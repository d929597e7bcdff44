"""The files that a plan was made of are kept as they were given."""

from memqos.laboratory.evidence import LONGEST, manifests_text


def plan(*origins):
    return {
        "cgroups": [
            {"knobs": {"memory.max": {"reason": {"inputs": [{"name": "x", "origin": origin}]}}}} for origin in origins
        ]
    }


def test_each_file_is_kept_once_behind_its_name(tmp_path):
    for name in ("pod.yaml", "kubelet.yaml"):
        (tmp_path / name).write_text(f"kind: {name}\n\n")

    text = manifests_text(plan(*(f"{tmp_path}/{name}" for name in ("pod.yaml:3", "pod.yaml:9", "kubelet.yaml:1"))))

    assert text == "# pod.yaml\nkind: pod.yaml\n---\n# kubelet.yaml\nkind: kubelet.yaml\n"


def test_what_is_no_file_is_passed_over(tmp_path):
    assert (
        manifests_text(plan("default", f"{tmp_path}/gone.yaml:3", "/etc/passwd", "node (options)", f"{tmp_path}:3"))
        == ""
    )
    assert manifests_text({"origin": 3, "a": [None, 1, "x"]}) == ""


def test_an_overlong_file_is_named_and_not_kept(tmp_path):
    (tmp_path / "long.yaml").write_text("#" * (LONGEST + 1))

    assert manifests_text(plan(f"{tmp_path}/long.yaml:1")) == "# long.yaml is longer than 64 KiB\n"
