"""The plugin LimitRanger beyond upstream's table. Rules: kubernetes plugin/pkg/admission/limitranger, v1.36.2."""

import pytest

from memqos.model.cluster import ClusterObjects
from memqos.model.pod import ContainerKind
from tests.unit.engine.admission.pods import admit, limits, message, new
from tests.unit.engine.pods import amounts, container, resources

DEFAULTS = limits(default={"memory": "512Mi"}, default_request={"memory": "256Mi"})


def beside(*ranges):
    return ClusterObjects(limit_ranges=ranges)


def test_defaults_go_to_containers_init_containers_and_sidecars():
    pod = new(
        container(name="app"),
        init_containers=(container(name="i", kind=ContainerKind.INIT), container(name="s", kind=ContainerKind.SIDECAR)),
        ephemeral_containers=(container(name="e", kind=ContainerKind.EPHEMERAL),),
        cluster=beside(DEFAULTS),
    )
    (found,) = admit(pod).pods
    filled = resources({"memory": "256Mi"}, {"memory": "512Mi"})
    assert [one.resources for one in found.all_containers] == [filled, filled, filled, resources()]
    assert found.containers[0].origin["limits.memory"] == "default (LimitRange default/lr, default)"


def test_a_value_in_the_manifest_stays():
    given = {"memory": "0"}, {"memory": "1Gi", "cpu": "1"}
    (found,) = admit(new(container(*given), cluster=beside(DEFAULTS))).pods
    assert found.containers[0].resources == resources({"memory": "0", "cpu": "1"}, given[1])


def test_pod_level_resources_are_defaulted_before():
    pod = new(container(), resources=resources(None, {"memory": "1Gi"}), cluster=beside(DEFAULTS))
    (found,) = admit(pod).pods
    assert found.resources == resources({"memory": "1Gi"}, {"memory": "1Gi"})


def test_other_namespaces_do_not_count():
    (found,) = admit(new(container(), namespace="shop", cluster=beside(DEFAULTS))).pods
    assert found.containers[0].resources == resources()


def test_a_default_below_the_request_is_invalid():
    pod = new(container({"memory": "1Gi"}, name="app"), cluster=beside(DEFAULTS))
    assert message(pod) == (
        'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than or equal '
        "to memory limit of 512Mi"
    )


def test_huge_pages_cannot_be_overcommitted_by_defaults():
    pages = "hugepages-2Mi"
    asked = new(container({pages: "4Mi"}, {pages: "4Mi"}), cluster=beside(limits(default={"cpu": "1"})))
    assert admit(asked).pods
    request = limits(default_request={pages: "4Mi"})
    assert "spec.containers[0].resources.limits: Required value: Limit must be set" in message(
        new(cluster=beside(request))
    )
    unequal = limits(default={pages: "8Mi"}, default_request={pages: "4Mi"})
    assert f"must be equal to {pages} limit of 8Mi" in message(new(cluster=beside(unequal)))


def test_pod_level_values_bound_the_defaults():
    small = resources({"memory": "100Mi"}, {"memory": "100Mi"})
    said = message(new(container(), container(name="d"), resources=small, cluster=beside(DEFAULTS)))
    assert (
        'spec.resources.requests[memory]: Invalid value: "100Mi": must be greater than or equal to aggregate container '
        "requests of 512Mi" in said
    )
    assert 'spec.resources.containers[1][memory].limits: Invalid value: "512Mi": must be less than' in said
    roomy = resources({"memory": "1Gi", "cpu": "1"}, {"memory": "1Gi"})
    assert admit(new(container(), resources=roomy, cluster=beside(DEFAULTS))).pods


@pytest.mark.parametrize(
    ("fields", "given", "said"),
    [
        ({"min": {"memory": "50Mi"}}, (), "minimum memory usage per Container is 50Mi.  No request is specified"),
        (
            {"min": {"memory": "1024Mi"}},
            ({"memory": "1"},),
            "minimum memory usage per Container is 1Gi, but request is 1",
        ),
        (
            {"min": {"cpu": "1"}},
            ({"cpu": "1"}, {"cpu": "1"}),
            "",
        ),
        ({"max": {"cpu": "0.5"}}, (), "maximum cpu usage per Container is 500m.  No limit is specified"),
        (
            {"max": {"cpu": "1"}},
            ({"cpu": "1"}, {"cpu": "1500m"}),
            "maximum cpu usage per Container is 1, but limit is 1500m",
        ),
        (
            {"max_limit_request_ratio": {"memory": "2"}},
            ({"memory": "0"}, {"memory": "1Gi"}),
            "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"max_limit_request_ratio": {"memory": "2"}},
            ({"memory": "1Gi"},),
            "memory max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"max_limit_request_ratio": {"memory": "2"}},
            ({"memory": "1Gi"}, {"memory": "3Gi"}),
            "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"max": {"memory": "8Ei"}, "max_limit_request_ratio": {"memory": "8Ei"}},
            ({"memory": "1"}, {"memory": "2"}),
            "",
        ),
    ],
)
def test_messages(fields, given, said):
    pod = new(container(*given), cluster=beside(limits(**fields)))
    assert [one.message for one in admit(pod).refusals] == ([f'pods "p" is forbidden: {said}'] if said else [])


def test_a_limit_below_the_minimum():
    # A container with this error is invalid before: only the sums of a pod may have a request above the limit.
    pod = new(
        container({"memory": "60Mi"}),
        container(None, {"memory": "10Mi"}, name="d"),
        cluster=beside(limits("Pod", min={"memory": "50Mi"})),
    )
    assert message(pod) == 'pods "p" is forbidden: minimum memory usage per Pod is 50Mi, but limit is 10Mi'


def test_a_request_above_the_maximum():
    pod = new(
        container({"memory": "60Mi"}),
        container(None, {"memory": "10Mi"}, name="d"),
        cluster=beside(limits("Pod", max={"memory": "50Mi"})),
    )
    assert message(pod) == 'pods "p" is forbidden: maximum memory usage per Pod is 50Mi, but request is 70Mi'


def test_several_faults_of_one_range_are_one_message():
    both = limits(min={"cpu": "1", "memory": "1Gi"})
    assert message(new(container(), container(name="d"), cluster=beside(both))) == (
        'pods "p" is forbidden: [minimum cpu usage per Container is 1.  No request is specified, '
        "minimum memory usage per Container is 1Gi.  No request is specified]"
    )


@pytest.mark.parametrize(("release", "refused"), [("1.27", True), ("1.28", False)])
def test_up_to_1_27_a_pod_counts_only_what_every_container_names(release, refused):
    pod = new(container({"memory": "60Mi"}), container(name="d"), cluster=beside(limits("Pod", min={"memory": "50Mi"})))
    assert bool(admit(pod, release=release).refusals) is refused


def test_up_to_1_27_an_init_container_alone_names_a_resource():
    pod = new(
        container(),
        init_containers=(container({"memory": "60Mi"}, kind=ContainerKind.INIT, name="i"),),
        cluster=beside(limits("Pod", min={"memory": "50Mi"})),
    )
    assert admit(pod, release="1.27").refusals == ()


def test_two_ranges_with_different_defaults_are_undetermined():
    ranges = DEFAULTS, limits(name="other", default={"memory": "1Gi"}, default_request={"memory": "256Mi"})
    outcome = admit(new(container(), cluster=beside(*ranges)))
    (remark,) = outcome.remarks
    assert remark.what == (
        "limits.memory is 512Mi (LimitRange lr) or 1Gi (LimitRange other): which of them comes first is not determined"
    )
    assert outcome.undetermined == {"uid-p": remark.what}
    named = container({"memory": "1Mi"}, {"memory": "1Mi"})
    assert admit(new(named, cluster=beside(*ranges))).undetermined == {}


def test_two_defaults_are_undetermined_beside_one_that_the_container_names():
    ranges = [limits(name=one, default={"memory": memory, "cpu": cpu}) for one, memory, cpu in (
        ("lr", "512Mi", "1"), ("other", "1Gi", "2"),
    )]  # fmt: skip
    (remark,) = admit(new(container(None, {"memory": "1Mi"}), cluster=beside(*ranges))).remarks
    assert remark.what.startswith("limits.cpu is 1 (LimitRange lr) or 2 (LimitRange other)")


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1e3", "1k"),
        ("0", "0"),
        ("512", "512"),
        ("1.5Gi", "1536Mi"),
        ("1Ki", "1Ki"),
    ],
)
def test_amounts_in_messages_are_canonical(written, printed):
    assert amounts({"memory": written})["memory"].canonical() == printed
