"""Runs container lifecycles on a node, many at a time, and judges the container after every step."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from memqos.engine.answer.finding import Finding, Verdict
from memqos.engine.translate.requested import RequestedContainer, requested, requested_again
from memqos.errors import MachineryError, NonconformanceError, RuntimeCallError
from memqos.exploration import Document
from memqos.exploration.examples import Verb, resources_of, verb_of
from memqos.node.pods.refusal import refused_finding, request_finding, taken_finding
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.containers import Containers, observed, soon
from memqos.runtime.base import Capability, ContainerHandle, SpeaksCri, SpeaksOci
from memqos.target.base import checked
from memqos.threads import submit
from memqos.workload.command import PROGRAM, Exit, arguments

__all__ = ["LifecycleRunner"]


@dataclasses.dataclass(slots=True)
class _InProgress:
    """One lifecycle in progress. container: expected files, None before creation. found: the last step's findings."""

    steps: Sequence[Document]
    container: RequestedContainer | None = None
    handle: ContainerHandle | None = None
    started: bool = False
    found: Sequence[Finding] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LifecycleRunner:
    """Runs lifecycles of containers in the node's running pod."""

    requests: Requests

    @property
    def _containers(self) -> Containers:
        return Containers(self.requests)

    def run_each(self, several: Sequence[Sequence[Document]]) -> Sequence[Sequence[Finding] | MachineryError]:
        """For each lifecycle, its findings, or the machine's error.

        A lifecycle ends at its first deviation. Every finding names the step before it.
        """
        with ThreadPoolExecutor(max_workers=self.requests.parallel, thread_name_prefix="life") as pool:
            try:
                futures = [submit(pool, self._result_of, steps) for steps in several]
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _result_of(self, steps: Sequence[Document]) -> Sequence[Finding] | MachineryError:
        try:
            return LifecycleRunner(self.requests.apart()).run_one(steps)
        except MachineryError as error:
            return error

    def run_one(self, steps: Sequence[Document]) -> Sequence[Finding]:
        """The findings of one lifecycle; raises MachineryError for a failure of the machine."""
        course = _InProgress(steps)
        found: list[Finding] = []
        name = f"life-{uuid.uuid4().hex[:8]}"
        try:
            with self.requests.removing(self.requests.pod):
                for now in self._each_step(course, name):
                    found += now
                    if any(one.verdict is Verdict.DEVIATES for one in now):
                        break
        except NonconformanceError as error:
            own = error.data.get("finding")
            return [*found, *([own] if isinstance(own, Finding) else [])]
        return found

    def _each_step(self, course: _InProgress, name: str) -> Iterator[Sequence[Finding]]:
        """The findings after each step, until a request is refused."""
        for number, step in enumerate(course.steps, 1):
            verb, request = verb_of(step)
            try:
                self._take(course, verb, request, name)
            except RuntimeCallError as error:
                yield self._refused(course, verb, error)
                return
            if course.container is not None and course.container.refusal:
                yield [taken_finding(course.container.refusal, course.container, update=verb is Verb.UPDATE)]
                return
            is_last = number == len(course.steps)
            if is_last and not course.started:
                self._start(course)
            if course.started:
                yield [*course.found, *self._seen(course, f"after step {number}, {verb}")]

    def _take(self, course: _InProgress, verb: Verb, request: Mapping[str, Any], name: str) -> None:
        course.found = ()
        if verb is Verb.UPDATE and Capability.UPDATE not in self.requests.runtime.capabilities:
            return  # this runtime has no command that updates a container: the rest of the lifecycle is tried
        if verb not in {Verb.CREATE, Verb.UPDATE} and not course.started:
            self._start(course)
        match verb:
            case Verb.CREATE:
                self._make(course, request, name)
            case Verb.UPDATE:
                self._update(course, request)
            case Verb.EXEC:
                self._execute(course)
            case Verb.STATS:
                self._ask_for_stats(course)
            case Verb.RESTART:
                self._make_again(course, name)
            case Verb.RELOAD:
                self._reload()
            case Verb.START:
                """The container was started before this step."""

    def _make_again(self, course: _InProgress, name: str) -> None:
        assert course.handle is not None  # noqa: S101
        self._containers.end(course.handle)
        self.requests.remove(self.requests.pod)
        self._make(course, verb_of(course.steps[0])[1], f"{name}-{uuid.uuid4().hex[:4]}")
        self._start(course)

    def _reload(self) -> None:
        target = self.requests.tree.target
        for words in (["daemon-reload"], ["show", "--property=Version"]):
            checked(target.run(["systemctl", *words], deadline=soon()), where=target.address)

    def _update(self, course: _InProgress, request: Mapping[str, Any]) -> None:
        assert course.container is not None  # noqa: S101 - the first step creates
        assert course.handle is not None  # noqa: S101
        resources = resources_of(request)
        if not course.started and not self._waits_for_start(course):
            self._start(course)
        course.container = requested_again(course.container, resources)
        self.requests.runtime.update(course.handle, resources, deadline=soon())

    def _execute(self, course: _InProgress) -> None:
        assert course.handle is not None  # noqa: S101
        code, _, _ = self.requests.runtime.exec(course.handle, (PROGRAM, *arguments([Exit(code=0)])), deadline=soon())
        course.found = [observed("exec", "0", str(code))]

    def _waits_for_start(self, course: _InProgress) -> bool:
        """Whether the lifecycle has its own START step."""
        return any(verb_of(step)[0] is Verb.START for step in course.steps)

    def _make(self, course: _InProgress, request: Mapping[str, Any], name: str) -> None:
        resources = resources_of(request)
        course.container = requested(resources, self.requests.kubelet.runtimes, self.requests.kubelet.host)
        course.started = False
        course.handle = self._containers.made(resources, name=name)

    def _start(self, course: _InProgress) -> None:
        assert course.handle is not None  # noqa: S101 - the first step creates
        self.requests.runtime.start(course.handle, deadline=soon())
        course.started = True

    def _ask_for_stats(self, course: _InProgress) -> None:
        assert course.handle is not None  # noqa: S101
        if isinstance(self.requests.runtime, SpeaksCri):
            self.requests.runtime.stats(course.handle, deadline=soon())
        elif isinstance(self.requests.runtime, SpeaksOci) and Capability.EVENTS in self.requests.runtime.capabilities:
            self.requests.runtime.stats_event(course.handle, deadline=soon())
        self.requests.runtime.status(course.handle, deadline=soon())

    def _refused(self, course: _InProgress, verb: Verb, error: RuntimeCallError) -> Sequence[Finding]:
        """The findings about a refused request; raises the error of a step without a request."""
        if course.container is None or verb not in {Verb.CREATE, Verb.UPDATE, Verb.START, Verb.RESTART}:
            raise error
        return [refused_finding(error, course.container, update=verb is Verb.UPDATE)]

    def _seen(self, course: _InProgress, when: str) -> Sequence[Finding]:
        """The findings about the container's files and about its accepted request."""
        assert course.container is not None  # noqa: S101
        assert course.handle is not None  # noqa: S101
        update = len(course.container.requests) > 1
        taken = request_finding(Verdict.CONFORMS, update=update, expected="taken", observed="taken")
        shown = [taken, *self.requests.shown(course.container, self.requests.pod, course.handle)]
        return [dataclasses.replace(one, subject=one.subject.at(when)) for one in shown]
