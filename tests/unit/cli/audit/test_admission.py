"""Running pods, and the effect of given objects on them: missing objects are not held against either."""

import json

from tests.unit.cli.audit.recordings import TIERED

LIMITS = """\
apiVersion: v1
kind: LimitRange
metadata: {name: %s}
spec: {limits: [{type: Container, default: {memory: %s}, defaultRequest: {memory: 1Mi}}]}
"""


def unchanged(pod):
    """The pod as it was recorded."""


def manifests(tmp_path, *more, change=unchanged):
    """The recorded pods and further objects, as files."""
    pods = json.loads(TIERED.read_text())["pods"]
    for pod in pods:
        change(pod)
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    (tmp_path / "more.yaml").write_text("---\n".join(more))
    return ("--pods", tmp_path / "pods.json", *(("--pods", tmp_path / "more.yaml") if more else ()))


def findings(out, verdict):
    return [one for one in json.loads(out)["findings"] if one["verdict"] == verdict]


def test_a_pod_that_runs_though_it_would_be_refused_is_not_judged(told, tmp_path, changed):
    def by_name(data):
        """The recording's pods as an API server's: under the names of their manifests."""
        data["containers"] = {
            key: [name.removesuffix("-n1"), container, uid]
            for key, (name, container, uid) in data["containers"].items()
        }

    def name_a_class(pod):
        if pod["metadata"]["name"] == "guar-one":
            pod["spec"]["runtimeClassName"] = "kata"

    code, out, _ = told("--tree", changed(by_name), *manifests(tmp_path, change=name_a_class), "--json")
    assert (code, findings(out, "deviates")) == (0, [])
    (why,) = {one["why_not"] for one in findings(out, "not observable") if "guar-one" in one["subject"]}
    assert 'RuntimeClass "kata" not found' in why
    assert why.endswith("but it runs: the cluster has other objects")


def test_defaults_that_are_left_to_chance_are_not_judged(told, tmp_path, changed):
    def by_name(data):
        data["containers"] = {
            key: [name.removesuffix("-n1"), container, uid]
            for key, (name, container, uid) in data["containers"].items()
        }

    more = LIMITS % ("a", "512Mi"), LIMITS % ("b", "1Gi")
    code, out, _ = told("--tree", changed(by_name), *manifests(tmp_path, *more), "--json")
    assert findings(out, "deviates") == []
    assert code == 0
    whys = {one["why_not"] for one in findings(out, "not observable")}
    assert any("limits.memory is 512Mi (LimitRange a) or 1Gi (LimitRange b)" in why for why in whys)
