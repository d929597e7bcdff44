"""A runtime that refuses a valid request but starts other containers deviates; one that starts none does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memqos.clock import Deadline
from memqos.engine.answer.finding import Finding, Verdict
from memqos.errors import MachineryError, NonconformanceError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.pod import Pod
from memqos.node import NodeUnderTest
from memqos.plugin.collection.catalogue import Catalogue
from memqos.runtime.base import ContainerHandle
from tests.unit.node.fakes import Bench, kubelet, pod

CATALOGUE = Catalogue()
WORDS = "runc create failed: memory.max is one page too high"


def refusing(refuses: Callable[[ContainerResources], bool], *, updates: bool = False) -> NodeUnderTest:
    """A node whose runtime does not start, or does not update, containers that match this."""

    class Refusing(type(Bench().runtime)):  # type: ignore[misc]
        def start(self, handle: ContainerHandle, *, deadline: Deadline) -> None:
            if not updates:
                self._may(self._containers[handle.id].resources)
            super().start(handle, deadline=deadline)

        def update(self, handle: ContainerHandle, resources: ContainerResources, *, deadline: Deadline) -> None:
            if updates:
                self._may(resources)
            super().update(handle, resources, deadline=deadline)

        def _may(self, resources: ContainerResources) -> None:
            if refuses(resources):
                raise RuntimeCallError(
                    f"fake answered UNKNOWN: {WORDS}", data={"method": "start", "code": "UNKNOWN", "details": WORDS}
                )

    bench = Bench()
    bench.runtime.__class__ = Refusing
    return bench.node


def has_limit(resources: ContainerResources) -> bool:
    return bool(resources.memory_limit_in_bytes)


def everything(_: ContainerResources) -> bool:
    return True


def told(findings: Sequence[Finding]) -> list[tuple[str, str, str, str]]:
    return [
        (one.knob, str(one.subject), one.expected, one.observed) for one in findings if one.verdict is Verdict.DEVIATES
    ]


CREATE = [("create", "container app of pod default/web", "taken", f"refused: {WORDS}")]
"""The fakes' app containers are named after their kind."""


def test_a_refused_creation_is_a_finding_of_its_pod() -> None:
    web = pod("web")
    with refusing(has_limit).admitted([web], kubelet()) as population:
        found = population.judge_pod(web)
        assert told(found) == CREATE
    assert {one.why_not for one in found if str(one.subject).startswith("container") and one.knob != "create"} <= {
        "no container of this name was started", "the reading has no such cgroup",
        "the cgroup does not exist",
    }  # fmt: skip
    assert any(one.verdict is Verdict.CONFORMS for one in found if str(one.subject).startswith("pod"))


def test_a_refused_init_container_is_one_too() -> None:
    web = pod("web", init=True)
    with refusing(has_limit).admitted([web], kubelet()) as population:
        assert told(population.judge_pod(web)) == [
            ("create", "container init of pod default/web", "taken", f"refused: {WORDS}")
        ]


def test_a_runtime_that_starts_nothing_is_a_machinery_error() -> None:
    web = pod("web")
    with refusing(everything).admitted([web], kubelet()) as population:
        with pytest.raises(RuntimeCallError, match="one page too high"):
            population.judge_pod(web)
        with pytest.raises(RuntimeCallError):
            population.require(web.uid)


def test_the_plain_container_is_gone_and_so_is_all_else_at_the_end() -> None:
    web, node = pod("web"), refusing(has_limit)
    with node.admitted([web], kubelet()) as population:
        assert set(population.pods[web.uid].containers) <= {"app"}
    assert node.leftovers() == ()


def test_refusals_do_not_keep_the_other_pods_from_being_tried() -> None:
    refused = [pod(f"limited-{number}") for number in range(5)]
    taken = pod("free", request="", limit="")
    node = refusing(has_limit)
    with node.admitted([*refused, taken], kubelet()) as population:
        assert [len(told(population.judge_pod(one))) for one in refused] == [1] * 5
        assert told(population.judge_pod(taken)) == []


def test_a_refused_watched_pod_is_a_deviation_with_its_finding() -> None:
    with (
        pytest.raises(NonconformanceError, match=WORDS) as caught,
        refusing(has_limit).watched(pod("web"), kubelet(), rests_on=[Knob.MEMORY_MAX]),
    ):
        pass
    finding = caught.value.data["finding"]
    assert isinstance(finding, Finding)
    assert told([finding]) == CREATE


def resized(node: NodeUnderTest) -> Pod:
    before, case = CATALOGUE.pod("resizable"), CATALOGUE.kubelet("v1.36-tiered")
    with node.admitted([before], case) as population:
        node.resize(population, before, case, to=CATALOGUE.pod("resizable-larger"))
    return before


def test_a_refused_update_is_a_deviation_of_its_own_knob() -> None:
    with pytest.raises(NonconformanceError) as caught:
        resized(refusing(everything, updates=True))
    finding = caught.value.data["finding"]
    assert isinstance(finding, Finding)
    [(knob, subject, expected, observed)] = told([finding])
    assert (knob, expected, observed) == ("update", "taken", f"refused: {WORDS}")
    assert subject.endswith("of pod default/resizable")


def test_an_update_that_ends_in_another_error_is_machinery() -> None:
    bench = Bench()

    def hangs(*_: object, **__: object) -> None:
        raise MachineryError("the daemon does not answer.")

    bench.runtime.update = hangs  # type: ignore[method-assign]
    with pytest.raises(MachineryError, match="does not answer"):
        resized(bench.node)
