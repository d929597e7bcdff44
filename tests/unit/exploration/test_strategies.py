"""The public strategies: all draws are valid, and each promised kind is drawn."""

import json
import subprocess
import sys
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.exploration.examples import check_lifecycle
from memqos.model.pod import ContainerKind
from memqos.model.quantity import Quantity
from memqos.testing.strategies import (
    RUNNABLE,
    byte_counts,
    configurations,
    lifecycles,
    manifests,
    nodes,
    pod_of,
    pods,
    resizes,
    situations,
    spellings,
)

FEW = settings(max_examples=30, suppress_health_check=list(HealthCheck))
MIB = 1 << 20


def drawn(strategy, count=300):
    """hypothesis's draws of a strategy, the same each time."""
    found = []

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(strategy)
    def collect(one):
        found.append(one)

    collect()
    return found


@given(st.integers(0, 1 << 40))
def test_every_spelling_is_the_same_amount(count):
    assert {Quantity.parse(str(text)).amount for text in spellings(count)} == {Fraction(count)}


def test_spellings_are_those_of_kubernetes():
    assert {1536 << 20, "1610612736", "1.5Gi", "1536Mi", "1610612736.0", "1610612736000m"} <= {*spellings(1536 << 20)}
    assert {"1G", "1000M", "1000e6", "1000E6", "1000000k"} <= {*spellings(10**9)}


def test_amounts_are_of_all_kinds():
    found = drawn(byte_counts())
    assert 0 in found
    assert any(0 < one < 4096 for one in found)
    assert any(one % 8192 == 4096 for one in found), "an odd number of pages"
    assert any(one % 4096 in {1, 4095} for one in found), "a byte more or less than pages"
    assert any(one > 1 << 33 for one in found)


def test_pods_are_of_all_kinds():
    found = drawn(pods())
    kinds = {one.kind for pod in found for one in pod.all_containers}
    assert kinds == {ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR}
    assert any(pod.overhead for pod in found)
    assert any(pod.resources is not None for pod in found)
    limits = [one.resources.limits for pod in found for one in pod.all_containers]
    assert any("hugepages-2Mi" in one for one in limits)
    assert any("memory" in one and not one["memory"].is_whole for one in limits)
    assert any("memory" in one and one["memory"].is_zero for one in limits)


@FEW
@given(manifests(RUNNABLE))
def test_runnable_pods_have_room_to_start(manifest):
    for one in pod_of(manifest).all_containers:
        limit = one.resources.limits.get("memory")
        assert limit is None or limit.value >= 32 * MIB
        assert not any(name.startswith("hugepages") for name in one.resources.limits)


@FEW
@given(st.data())
def test_every_situation_is_planned(data):
    """A configuration that is drawn for a node starts there, and its pods and objects are valid."""
    node = data.draw(nodes())
    situation = data.draw(situations(node=node))
    kubelet = situation.kubelet
    of = Kubelet.of(node=node, settings=kubelet.settings, release=kubelet.kubernetes, driver=situation.driver)
    if kubelet.settings.memory_manager_policy is None:
        assert expect([pod_of(manifest) for manifest in situation.pods], of).release == kubelet.kubernetes


@FEW
@given(configurations(kubernetes="1.36"))
def test_a_configuration_is_valid_for_its_release(kubelet):
    assert kubelet.kubernetes == "1.36"
    assert json.loads(json.dumps(kubelet.config))["kind"] == "KubeletConfiguration"


@FEW
@given(manifests().flatmap(lambda one: st.tuples(st.just(one), resizes(one))))
def test_a_resize_keeps_containers_and_the_places_of_amounts(pair):
    before, after = map(pod_of, pair)
    for one, other in zip(before.all_containers, after.all_containers, strict=True):
        assert (one.name, set(one.resources.limits)) == (other.name, set(other.resources.limits))


@FEW
@given(lifecycles())
def test_a_lifecycle_is_possible(steps):
    check_lifecycle(steps)


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
try:
    import memqos.testing.strategies
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_hypothesis_one_line_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout == "memqos.testing.strategies needs hypothesis: pip install 'memqos[explore]'\n"
