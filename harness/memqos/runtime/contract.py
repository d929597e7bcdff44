"""The contract of the runtime port as a function, for memqos's adapters, the fake, and adapters of others.

def test_my_runtime() -> None:
    check_runtime_contract(my_case)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from memqos.clock import Deadline, wait
from memqos.errors import RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.runtime.base import (
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Runtime,
    SandboxHandle,
    SandboxSpec,
)

__all__ = ["RuntimeCase", "check_runtime_contract"]

_SECONDS = 60.0
_MIB = 1 << 20
_FIRST = ContainerResources(
    cpu_shares=2,
    memory_limit_in_bytes=64 * _MIB,
    memory_swap_limit_in_bytes=80 * _MIB,
    unified={"memory.min": str(8 * _MIB), "memory.high": str(48 * _MIB + 12345)},
)
_FIRST_SHOWN = {
    Knob.MEMORY_MAX: "67108864",
    Knob.MEMORY_SWAP_MAX: "16777216",
    Knob.MEMORY_MIN: "8388608",
    Knob.MEMORY_HIGH: "50343936",
}
"""50344005 for memory.high, rounded down to pages of 4 KiB."""
_SECOND = ContainerResources(
    memory_limit_in_bytes=96 * _MIB,
    memory_swap_limit_in_bytes=96 * _MIB,
    unified={"memory.high": str(72 * _MIB)},
)
_SECOND_SHOWN = {
    Knob.MEMORY_MAX: "100663296",
    Knob.MEMORY_SWAP_MAX: "0",
    Knob.MEMORY_MIN: "8388608",
    Knob.MEMORY_HIGH: "75497472",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCase:
    """A runtime with what the contract needs.

    sandbox: a sandbox that can be run; its cgroup parent exists. container: a container that runs until it is stopped,
    and ends on TERM at once. read: a knob of a container's own cgroup as its file shows it, without the newline. The
    machine has pages of 4 KiB and a swap controller.
    """

    runtime: Runtime
    sandbox: SandboxSpec
    container: ContainerSpec
    read: Callable[[ContainerHandle, Knob], str]


def check_runtime_contract(factory: Callable[[], AbstractContextManager[RuntimeCase]]) -> None:
    """Check an adapter against the port's contract; AssertionError names the broken promise."""
    with factory() as case:
        _says_who_it_is(case)
        sandbox = case.runtime.run_sandbox(case.sandbox, deadline=_soon())
        try:
            _promise(bool(sandbox.id) and sandbox.spec == case.sandbox, "a sandbox has an id and keeps its spec")
            _lives_through_its_states(case, sandbox)
            _ends_by_term_and_by_kill(case, sandbox)
            _refuses_what_is_wrong(case, sandbox)
            _removes_what_runs(case, sandbox)
        finally:
            case.runtime.remove_sandbox(sandbox, deadline=_soon())
        case.runtime.remove_sandbox(sandbox, deadline=_soon())


def _says_who_it_is(case: RuntimeCase) -> None:
    version = case.runtime.version(deadline=_soon())
    _promise(bool(version.name and version.version), f"version returns name and version, and returned {version}")
    _promise(bool(case.runtime.name), "it has a name for reports")
    _promise(all(isinstance(one, Capability) for one in case.runtime.capabilities), "all capabilities are known")


def _lives_through_its_states(case: RuntimeCase, sandbox: SandboxHandle) -> None:
    runtime = case.runtime
    spec = dataclasses.replace(case.container, name="contract-states", resources=_FIRST)
    container = runtime.create(sandbox, spec, deadline=_soon())
    _promise(container.sandbox == sandbox and container.name == spec.name, "a container knows its sandbox and name")
    _expect_state(case, container, ContainerState.CREATED)
    runtime.start(container, deadline=_soon())
    status = _expect_state(case, container, ContainerState.RUNNING)
    _promise(status.exit_code is None, f"a running container has no exit code, and has {status.exit_code}")
    _expect_shown(case, container, _without(_FIRST_SHOWN, case.runtime, Capability.UNIFIED))
    if Capability.UPDATE in runtime.capabilities:
        runtime.update(container, _SECOND, deadline=_soon())
        _expect_shown(case, container, _without(_SECOND_SHOWN, case.runtime, Capability.UPDATE_UNIFIED))
    _says_where_to_look(case, container)
    runtime.stop(container, grace=20, deadline=_soon())
    runtime.remove(container, deadline=_soon())
    runtime.remove(container, deadline=_soon())


def _says_where_to_look(case: RuntimeCase, container: ContainerHandle) -> None:
    """After an update, a stored specification of a container has the last requested values."""
    traces = case.runtime.traces(container, deadline=_soon())
    places = (*traces.config, *traces.state, *traces.log)
    _promise(all(place.startswith("/") for place in places), f"traces are absolute paths, and are {places}")
    last = _SECOND if Capability.UPDATE in case.runtime.capabilities else _FIRST
    if traces.spec is not None:
        linux: Any = traces.spec.get("linux", {})
        kept = linux.get("resources", {}).get("memory", {}).get("limit")
        _promise(
            kept == last.memory_limit_in_bytes,
            f"the stored specification has the last memory limit {last.memory_limit_in_bytes}, and has {kept}",
        )


def _ends_by_term_and_by_kill(case: RuntimeCase, sandbox: SandboxHandle) -> None:
    for name, grace, code in (("contract-term", 20, 143), ("contract-kill", 0, 137)):
        container = _started(case, sandbox, name)
        case.runtime.stop(container, grace=grace, deadline=_soon())
        status = _expect_state(case, container, ContainerState.EXITED)
        _promise(
            status.exit_code == code, f"stop with grace {grace} gives exit code {code}, and gave {status.exit_code}"
        )
        case.runtime.remove(container, deadline=_soon())


def _refuses_what_is_wrong(case: RuntimeCase, sandbox: SandboxHandle) -> None:
    container = _started(case, sandbox, "contract-refusals")
    nobody = dataclasses.replace(container, id="0" * 64)
    _raises(lambda: case.runtime.status(nobody, deadline=_soon()), "the status of a container that does not exist")
    _raises(lambda: case.runtime.start(container, deadline=_soon()), "starting a container that runs")
    if Capability.UPDATE in case.runtime.capabilities:
        too_little = ContainerResources(memory_limit_in_bytes=64 * _MIB, memory_swap_limit_in_bytes=32 * _MIB)
        _raises(
            lambda: case.runtime.update(container, too_little, deadline=_soon()),
            "a limit of memory and swap below that of memory",
        )
    case.runtime.stop(container, grace=0, deadline=_soon())
    case.runtime.remove(container, deadline=_soon())


def _removes_what_runs(case: RuntimeCase, sandbox: SandboxHandle) -> None:
    container = _started(case, sandbox, "contract-removal")
    case.runtime.remove_sandbox(sandbox, deadline=_soon())
    _raises(lambda: case.runtime.status(container, deadline=_soon()), "a container whose sandbox was removed")


def _started(case: RuntimeCase, sandbox: SandboxHandle, name: str) -> ContainerHandle:
    container = case.runtime.create(sandbox, dataclasses.replace(case.container, name=name), deadline=_soon())
    case.runtime.start(container, deadline=_soon())
    return container


def _expect_state(case: RuntimeCase, container: ContainerHandle, state: ContainerState) -> ContainerStatus:
    return wait(
        f"the container is {state}",
        lambda: case.runtime.status(container, deadline=_soon()),
        until=lambda status: status.state is state,
        deadline=_soon(),
    )


def _expect_shown(case: RuntimeCase, container: ContainerHandle, expected: Mapping[Knob, str]) -> None:
    shown = {knob: case.read(container, knob) for knob in expected}
    _promise(shown == expected, f"resources reach the container's cgroup: expected {expected}, and it shows {shown}")


def _without(expected: Mapping[Knob, str], runtime: Runtime, capability: Capability) -> Mapping[Knob, str]:
    """A check that is skipped if the runtime lacks a capability for it."""
    able = runtime.capabilities
    unsaid = set[Knob]()
    if Capability.UNIFIED not in able or capability not in able:
        unsaid |= {Knob.MEMORY_MIN, Knob.MEMORY_HIGH}
    if Capability.SWAP_LIMIT not in able:
        unsaid.add(Knob.MEMORY_SWAP_MAX)
    return {knob: text for knob, text in expected.items() if knob not in unsaid}


def _raises(act: Callable[[], object], what: str) -> None:
    try:
        act()
    except RuntimeCallError as error:
        _promise({"method", "code", "details"} <= set(error.data), f"{what} is an error with the runtime's answer")
    else:
        _promise(False, f"{what} is a RuntimeCallError")


def _soon() -> Deadline:
    return Deadline.after(_SECONDS)


def _promise(kept: bool, promise: str) -> None:
    if not kept:
        raise AssertionError(f"the runtime port's contract is broken: {promise}")
