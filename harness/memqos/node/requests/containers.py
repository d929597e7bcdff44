"""Containers that a test creates in a running pod, with a program and resources of its choice."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from memqos.cgroupfs import parse
from memqos.clock import SYSTEM_CLOCK, Deadline, wait, wait_or_last
from memqos.enactor.base import AdmittedPod
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.answer.verdict import OOM_SCORE_ADJ, PROCESSES
from memqos.engine.translate.requested import RequestedContainer, requested, requested_again
from memqos.engine.translate.specification import without_exec
from memqos.errors import RuntimeCallError, UsageError
from memqos.model.cri import ContainerResources
from memqos.model.path import CgroupPath
from memqos.model.reading import FileText
from memqos.node.pods.population import place_outside
from memqos.node.pods.refusal import NAME, SUBJECT, refused_finding
from memqos.node.requests.container_requests import Requests
from memqos.node.requests.ends import check_ended, nonconforming
from memqos.node.requests.reported import stock_of
from memqos.runtime.base import (
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    SandboxHandle,
    SpeaksCri,
)
from memqos.threads import submit
from memqos.workload.command import PROGRAM, Anon, Command, File, Hold, Tmpfs, arguments

__all__ = [
    "HELD",
    "HELD_IN_ALL",
    "OF_EACH_KIND",
    "OF_USE",
    "Containers",
    "exec_end",
    "observed",
    "soon",
    "taken_findings",
]

CALL_SECONDS = 60.0
HELD = 16 << 20
"""Bytes of a program that fits below all limits of a container with programs that use memory."""
OF_EACH_KIND = (Anon(size=HELD), Tmpfs(path="/dev/held", size=HELD // 2), File(path="/held", size=HELD // 2), Hold())
"""A program that holds anonymous memory, a tmpfs file and page cache: its usage, working set and RSS differ."""
HELD_IN_ALL = 2 * HELD
BETWEEN_LOOKS = 0.1
"""Seconds between two looks at a program that takes two seconds or more."""
_GROWING, _STAT = ("memory.events", "memory.swap.current"), "memory.stat"
OF_USE = (*_GROWING, _STAT)
"""The files that show whether memory was taken from a container."""
_NOTHING = ContainerResources()

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, slots=True)
class Containers:
    """Creates containers one at a time in addition to the pod's own, and removes each."""

    requests: Requests

    @property
    def sandbox(self) -> SandboxHandle:
        """The pod's own sandbox."""
        sandbox = self.requests.pod.sandbox
        assert sandbox is not None  # noqa: S101 - the pod came up
        return sandbox

    @property
    def stock(self) -> int:
        """Bytes that all CPUs of the machine together may have charged ahead."""
        return stock_of(self.requests.kubelet.node.cpus, self.requests.kubelet.host.page_size)

    @property
    def cri(self) -> SpeaksCri:
        """The runtime if it is used over CRI; UsageError for another one."""
        if not isinstance(self.requests.runtime, SpeaksCri):
            raise UsageError(
                f"{self.requests.runtime.name} is not used over CRI.", next_step="Add CRI to the claim's needs."
            )
        return self.requests.runtime

    def made(
        self, resources: ContainerResources, *commands: Command, pod: AdmittedPod | None = None, name: str = NAME
    ) -> ContainerHandle:
        """A created, not started container, in the pod's sandbox or a further one; removed with `Requests.remove`.

        name: its name for the runtime, unique within a sandbox.
        """
        pod = pod or self.requests.pod
        spec = ContainerSpec(
            name=name,
            image=self.requests.pod.pod.containers[0].image,
            args=arguments(commands or (Hold(),)),
            log=f"{NAME}-{uuid.uuid4().hex}.log",
            resources=resources,
        )
        assert pod.sandbox is not None  # noqa: S101 - the pod came up
        handle = dataclasses.replace(self.requests.runtime.create(pod.sandbox, spec, deadline=soon()), name=NAME)
        pod.containers[NAME] = handle
        return handle

    @contextlib.contextmanager
    def second_sandbox(self, name: str, resources: ContainerResources = _NOTHING) -> Iterator[SandboxHandle]:
        """A further sandbox in the same parent. resources: the pod's, and its overhead as well."""
        uid = uuid.uuid4().hex
        spec = dataclasses.replace(
            self.sandbox.spec, name=f"{name}-{uid[:8]}", uid=uid, resources=resources, overhead=resources
        )
        sandbox = self.requests.runtime.run_sandbox(spec, deadline=soon())
        try:
            yield sandbox
        finally:
            self.requests.runtime.remove_sandbox(sandbox, deadline=soon())

    @contextlib.contextmanager
    def running(
        self,
        resources: ContainerResources,
        *commands: Command,
        sandbox: SandboxHandle | None = None,
        name: str = NAME,
    ) -> Iterator[ContainerHandle]:
        """A container in the pod, or in a further sandbox; several threads may have one in a sandbox each.

        NonconformanceError with its finding if the runtime refuses it, and starts another one without resources.
        """
        pod = (
            self.requests.pod
            if sandbox is None
            else dataclasses.replace(self.requests.pod, sandbox=sandbox, containers={})
        )
        with self.requests.removing(pod):
            with self.judging_refusals(resources, pod, name=name):
                handle = self.made(resources, *commands, pod=pod, name=name)
                self.requests.runtime.start(handle, deadline=soon())
            yield handle

    @contextlib.contextmanager
    def judging_refusals(self, resources: ContainerResources, pod: AdmittedPod, *, name: str = NAME) -> Iterator[None]:
        """NonconformanceError with its finding if the runtime refuses here to create or start a container with these.

        The error itself if the refusal is right, or if the runtime does not start one without resources either.
        """
        try:
            yield
        except RuntimeCallError as error:
            raise self._refused(error, resources, pod, name) from error

    def _refused(
        self, error: RuntimeCallError, resources: ContainerResources, pod: AdmittedPod, name: str
    ) -> Exception:
        """The error itself, unless it is a finding: the request is valid, and a container without it starts."""
        kubelet = self.requests.kubelet
        told = refused_finding(error, requested(resources, kubelet.runtimes, kubelet.host), update=False)
        if told.verdict is not Verdict.DEVIATES:
            return error
        try:
            self.requests.remove(pod)
            self.requests.runtime.start(self.made(_NOTHING, pod=pod, name=f"{name}-next"), deadline=soon())
        except RuntimeCallError:
            return error
        return nonconforming(told)

    def updated(
        self, handle: ContainerHandle, container: RequestedContainer, update: ContainerResources
    ) -> RequestedContainer:
        """A running container after one more update; NonconformanceError with its finding if a valid one is refused."""
        asked = requested_again(container, update)
        try:
            self.requests.runtime.update(handle, update, deadline=soon())
        except RuntimeCallError as error:
            told = refused_finding(error, asked, update=True)
            raise (nonconforming(told) if told.verdict is Verdict.DEVIATES else error) from error
        return asked

    def cgroup_of(self, handle: ContainerHandle) -> CgroupPath:
        """A container's own cgroup."""
        return self.requests.kubelet.layout.container(self.requests.pod.planned.cgroup.path, handle.id)

    def files(self, path: CgroupPath, names: Sequence[str]) -> Mapping[str, FileText]:
        """These files of a cgroup."""
        return self.requests.tree.read_cgroups([path], names, deadline=soon()).cgroups[path].files

    def settled(self, handle: ContainerHandle, size: int) -> CgroupPath:
        """Wait until the program uses this many bytes and no more from one look to the next; its cgroup."""
        path, looks = self.cgroup_of(handle), [""]

        def look() -> str:
            looks.append(str(self.files(path, ("memory.current",))["memory.current"]).strip())
            return looks[-1]

        wait(
            "the program has its memory",
            look,
            until=lambda text: text == looks[-2] and text.isdecimal() and int(text) >= size,
            deadline=soon(),
            every=BETWEEN_LOOKS,
        )
        return path

    def entered(self, handle: ContainerHandle, score: int, program: Command) -> list[Finding]:
        """How a program that the runtime execs in a container ended, and what was seen of it while it ran.

        It must be in the container's cgroup, with its oom_score_adj. score: the container's. program: runs for seconds.
        """
        return self.entered_during(lambda: None, handle, score, program)[0]

    def entered_during(
        self, happens: Callable[[], Result], handle: ContainerHandle, score: int | None, program: Command
    ) -> tuple[list[Finding], Result]:
        """The same, and the result of what happens once, as soon as the program is seen or has ended.

        score: None to judge none.
        """
        path, seen, where = self.cgroup_of(handle), dict[int, str](), ""
        whole = self.requests.kubelet.layout.whole(self.requests.pod.planned.cgroup.path, handle.id)
        before = self._scores_in(path)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="exec") as pool:
            running = submit(
                pool, self.requests.runtime.exec, handle, (PROGRAM, *arguments([program])), deadline=soon()
            )
            results: list[Result] = []
            is_over = False
            while not is_over:
                # One more look after its end: a program that was never seen was not there.
                is_over = running.done()
                now = self._scores_in(path)
                seen |= {pid: text for pid, text in now.items() if pid not in before}
                where = where or place_outside(self.requests.tree, whole, [pid for pid in seen if pid not in now])
                if (seen or is_over) and not results:
                    results.append(happens())
                SYSTEM_CLOCK.sleep(0 if is_over else BETWEEN_LOOKS)
            ended = exec_end(running.result)
        scores, failed = (
            ", ".join(sorted(set(seen.values()))),
            "" if ended == "0" else f"the program ended with {ended}",
        )
        inside = f"in {where}" if where else "there" if seen else "none"
        # A CRI server passes the score on with the process.
        is_cri = Capability.CRI in self.requests.runtime.capabilities
        of_score = "" if is_cri else without_exec(self.requests.kubelet.runtimes.oci)
        found = [
            observed("exec", "0", ended),
            observed(f"{PROCESSES} of exec", "there", inside, cgroup=str(path), why_not=failed),
        ]
        if seen and score is not None:
            name = f"{OOM_SCORE_ADJ} of exec"
            found.append(observed(name, str(score), scores, cgroup=str(path), why_not=of_score))
        return found, results[0]

    def _scores_in(self, path: CgroupPath) -> Mapping[int, str]:
        """The oom_score_adj of each workload process in a cgroup, by pid."""
        name = posixpath.basename(PROGRAM)
        found = self.requests.tree.read_named_processes(path, OOM_SCORE_ADJ, name, deadline=soon())
        return {pid: text.strip() for pid, text in found.items()}

    def end(self, handle: ContainerHandle) -> ContainerStatus:
        """Kill everything in it."""
        path = self.requests.kubelet.layout.whole(self.requests.pod.planned.cgroup.path, handle.id)
        self.requests.tree.kill([path], deadline=soon())
        return self.ended(handle)

    def ended(self, handle: ContainerHandle) -> ContainerStatus:
        """Its status once it has ended; NonconformanceError if it reports another state although no process is left."""
        status = wait_or_last(
            "the container has ended",
            lambda: self.requests.runtime.status(handle, deadline=soon()),
            until=lambda status: status.state is ContainerState.EXITED,
            deadline=soon(),
        )
        check_ended(self.requests.tree, self.cgroup_of(handle), status, deadline=soon())
        return status


def exec_end(run: Callable[[], tuple[int, bytes, bytes]]) -> str:
    """The exit code of an exec as text, or what the runtime says where it refuses it."""
    try:
        return str(run()[0])
    except RuntimeCallError as error:
        return f"refused: {error.data['details']}"


def taken_findings(
    before: Mapping[str, FileText], after: Mapping[str, FileText], path: str, stock: int
) -> list[Finding]:
    """Whether memory was taken from a container. before, after: OF_USE. stock: bytes that counts may lag behind."""
    return [*(_grown(name, before[name], after[name], path) for name in _GROWING), _cached(before, after, path, stock)]


def _grown(name: str, before: FileText, after: FileText, path: str) -> Finding:
    """Whether counts have not grown."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return observed(name, "", "", cgroup=path, why_not=f"the cgroup has no {name}")
    grown = [
        line
        for line, old in zip(after.splitlines(), before.splitlines(), strict=False)
        if int(line.split()[-1]) > int(old.split()[-1])
    ]
    return observed(name, "as before", ", ".join(grown) or "as before", cgroup=path)


def _cached(before: Mapping[str, FileText], after: Mapping[str, FileText], path: str, stock: int) -> Finding:
    """Whether page cache has not shrunk."""
    texts = [text for text in (before[_STAT], after[_STAT]) if isinstance(text, str)]
    counts = [parse.entry(parse.counters(text, path=path), "file", path=path) for text in texts]
    is_less = len(counts) > 1 and counts[1] < counts[0] - stock
    seen = f"file {counts[1]} after {counts[0]}" if is_less else "file as before"
    why_not = "" if len(counts) > 1 else f"the cgroup has no {_STAT}"
    return observed(_STAT, "file as before", seen, cgroup=path, why_not=why_not)


def observed(knob: str, expected: str, seen: str, *, cgroup: str = "", why_not: str = "") -> Finding:
    """A finding that compares the runtime's action with the required one; why_not: why it is not observable."""
    return Finding(
        verdict=Verdict.of(seen == expected, why_not),
        subject=SUBJECT,
        cgroup=cgroup,
        knob=knob,
        set_by=Setter.RUNTIME,
        expected=expected,
        observed=seen,
        why_not=why_not,
    )


def soon() -> Deadline:
    """The deadline of one call and its effects."""
    return Deadline.after(CALL_SECONDS)
