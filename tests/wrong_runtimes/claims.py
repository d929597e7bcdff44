"""What claims find on a node, asked as the suites ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from memqos.engine.answer.finding import Finding
from memqos.errors import NonconformanceError
from memqos.node.requests.conversing import Conversation
from memqos.node.requests.living import Life
from memqos.node.requests.requesting import Requests
from memqos.node.under_test import NodeUnderTest
from tests.unit.node.asked import CATALOGUE
from tests.unit.node.test_conversing import VERBS as OF_CRI
from tests.unit.node.test_living import VERBS as OF_LIVES


class Asking:
    """The verbs of all chapters about runtimes."""

    def __init__(self, requests: Requests) -> None:
        self._requests, self._life, self._conversation = requests, Life(requests), Conversation(requests)

    def find(self, claim: str) -> Sequence[Finding]:
        """The findings of a claim; the one with which it ended, if a container was not in its cgroup."""
        try:
            return self._found(claim)
        except NonconformanceError as error:
            return [error.data["finding"]]

    def _found(self, claim: str) -> Sequence[Finding]:
        chapter, _, name = claim.partition("/")
        if chapter == "cri":
            return OF_CRI[name](self._conversation)
        if chapter == "lifecycle":
            return OF_LIVES[name](self._life)
        if name == "stats-agree":
            return self._requests.judge_stats(CATALOGUE.any_request("bundle-reservation-and-limit"))
        if name == "oom-event":
            program = CATALOGUE.pod("over-limit").containers[0]
            return self._requests.judge_oom_event(CATALOGUE.oci_request("bundle-no-swap"), program)
        return self._requests.judge(CATALOGUE.any_request(name))


@contextlib.contextmanager
def asked_on(node: NodeUnderTest, name: str = "best-effort") -> Iterator[Asking]:
    """In a pod of its own. name: of one whose program holds memory, where that is looked at."""
    with node.asking(CATALOGUE.pod(name), CATALOGUE.kubelet("v1.36-none"), Asking) as asking:
        yield asking


class OnePod:
    """A pod that stands for one test after another, until one needs another."""

    def __init__(self, node: NodeUnderTest) -> None:
        self._node = node
        self._stack = contextlib.ExitStack()
        self._asking: Asking | None = None

    def asking(self) -> Asking:
        if self._asking is None:
            self._asking = self._stack.enter_context(asked_on(self._node))
        return self._asking

    def leave(self) -> None:
        """Have nothing more to do with it: its runtime does not do what it is asked."""
        self._asking = None
        self._stack.pop_all()

    def end(self) -> None:
        self._asking = None
        self._stack.close()
