"""What `memqos expect` rejects, each in a sentence with the place, the fault and the next step."""

import os

import pytest

from tests.unit.cli.expect.asking import BURSTABLE, EMPTY_CONFIG, TIERED


@pytest.mark.parametrize(
    "case",
    [
        (
            "resources: {requests: {memory: 12q}}",
            "",
            (),
            ["pod.yaml:7", "spec.containers[0].resources.requests.memory"],
        ),
        ("resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}", "", (), ["above the limit 1Gi"]),
        ("resourcs: {}", "", (), ["unknown field 'resourcs'", "Did you mean 'resources'"]),
        ("resources: {requests: {memory: -1}}", "", (), ["must not be negative"]),
        ("", "memoryThrottlingFactor: 1.5", (), ["kubelet.yaml:3", "memoryThrottlingFactor", "1.5", "at most 1"]),
        ("", "memoryThrottlngFactor: 0.5", (), ["kubelet.yaml:3", "Did you mean 'memoryThrottlingFactor'"]),
        ("", "", ("--kubernetes", "1.99"), ["there is no Kubernetes release '1.99'", "1.37"]),
        ("", "", ("--kubernetes", "1.36", "--why", "memory.maxx"), ["there is no interface file 'memory.maxx'"]),
        ("", "", ("--kubernetes", "1.36", "--capacity-memory", "much"), ["--capacity-memory", "is not a quantity"]),
        ("", "", ("--kubernetes", "1.36", "--capacity-memory", "0"), ["--capacity-memory", "less than 1"]),
        ("", "", ("--kubernetes", "1.36", "--swap", "-1"), ["--swap"]),
        ("", "", ("--kubernetes", "1.36", "--swap", "99Ei"), ["--swap: '99Ei' is more than any machine has"]),
        ("", "", ("--kubernetes", "1.036"), ["there is no Kubernetes release '1.036'"]),
        (
            "",
            "",
            ("--kubernetes", "1.36", "--oom", "--usage", "p/c=9Ei"),
            ["--usage: '9Ei' is more than any machine has"],
        ),
        (
            "",
            "",
            ("--kubernetes", "1.36", "--oom", "--usage", "p/c=9Gi"),
            [
                "'9Gi': it uses 9663676416 bytes, but the node has 8589934592 of memory and swap",
                "--capacity-memory",
            ],
        ),
        (
            "",
            "",
            ("--kubernetes", "1.36", "--protection", "--capacity-memory", "4Gi", "--usage", "p/c=5Gi"),
            ["but the node has 4294967296 of memory and swap"],
        ),
        (
            "",
            "",
            ("--kubernetes", "1.36", "--oom", "--usage", "p/c=1Gi", "--usage", "default/p/c=1Gi"),
            ["'default/p/c' is given twice"],
        ),
        ("", "", ("--kubernetes", "1.36", "--kubelet-config", "missing.yaml"), ["missing.yaml", "no such file"]),
        ("", "", ("--kubernetes", "1.36", "missing.yaml"), ["missing.yaml", "no such file"]),
        ("", "", ("--kubernetes", "1.36", "-", "--kubelet-config", "-"), ["can be read once only"]),
    ],
)
def test_bad_input(told, tmp_path, monkeypatch, case):
    pod, config, arguments, says = case
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    {pod}\n"
    )
    (tmp_path / "kubelet.yaml").write_text(EMPTY_CONFIG + config)
    arguments = arguments or ("--kubernetes", "1.36", "--kubelet-config", "kubelet.yaml")
    code, out, err = told("pod.yaml", *arguments)
    assert (code, out) == (4, "")
    assert "Traceback" not in err
    for words in says:
        assert words in err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("pod.yaml",),
        ("pod.yaml", "--kubernetes", "1.36", "--page-size", "5000"),
        ("--kubernetes",),
        ("pod.yaml", "--kubernetes", "1.36", "--as", "wished"),
    ],
)
def test_wrong_usage(told, arguments):
    code, _, err = told(*arguments)
    assert code == 4
    assert "memqos: error: " in err


def test_hostile_files_are_refused_at_once(told, tmp_path):
    for name, data in (("deep", b"[" * 10_000_000), ("deep2", b"[" * 1_000_000), ("noise", os.urandom(100_000))):
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(data)
        code, _, err = told(str(path), "--kubernetes", "1.36")
        assert code == 4
        assert f"{name}.yaml" in err


@pytest.mark.parametrize(("arguments", "says"), [
    ((BURSTABLE, "--kubernetes", "1.36", "--running"), "--running needs a change"),
    ((BURSTABLE,), "Missing option '--kubernetes'"),
    (("--kubernetes", "1.36"), "Missing argument 'FILE...'"),
    ((BURSTABLE, "--diff", "1.22", "1.23", "--kubernetes", "1.36"), "leave --kubernetes out"),
    ((BURSTABLE, "--diff", "1.22", "1.23", "--why", "memory.high"), "--why explains one plan"),
    ((BURSTABLE, "--diff-config", TIERED), "Missing option '--kubernetes'"),
    ((BURSTABLE, "--diff", "1.22", "1.99"), "there is no Kubernetes release '1.99'"),
])  # fmt: skip
def test_wrong_combinations(told, arguments, says):
    code, _, err = told(*arguments)
    assert (code, says in err) == (4, True)
