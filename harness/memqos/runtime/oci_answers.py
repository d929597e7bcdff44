"""PURE: what OCI runtimes answer on their command line, what can be asked of which, and their answers as errors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memqos.engine.translate.resources import OciResources, OciTranslation
from memqos.engine.translate.versions import Feature, RuntimeName, Traits
from memqos.errors import MachineryError, RuntimeCallError
from memqos.model.node import CgroupDriver
from memqos.runtime.base import Capability, ContainerStatus, RuntimeVersion
from memqos.runtime.oci_commands import SeenContainer
from memqos.target.base import CommandResult

__all__ = [
    "OPTIONS",
    "able",
    "accepted",
    "answer",
    "command_refusal",
    "event_types",
    "stats_of",
    "status_of",
    "version_of",
]

_ROOM, _WORDS = 1 << 16, 2000
"""Characters of what a runtime printed that are kept of each call, and those that are told."""

_KILLED = 137

OPTIONS = {RuntimeName.RUNSC: ("--network=none", "--overlay2=none")}
"""What stands before every command. Of runsc as little as memory needs: no stack of network of its own, and files on
the disk that a bundle has."""


def answer(result: CommandResult) -> dict[str, object]:
    """What came back of a command, for its record."""
    return {"status": result.status, "stdout": _kept(result.text), "stderr": _kept(result.error_text)}


def _kept(text: str, room: int = _ROOM) -> str:
    """A text as it is, or its beginning and its end where a runtime printed more than is kept."""
    left_out = len(text) - room
    return text if left_out <= 0 else f"{text[: room // 2]}\n… {left_out} characters …\n{text[-room // 2 :]}"


def able(oci: Traits, driver: CgroupDriver) -> frozenset[Capability]:
    """What can be asked of an OCI runtime: all that is not of a daemon, less what this one has not."""
    lacking = {Capability.CGROUP_DRIVER_REPORT, Capability.CRI, Capability.HOST_CONFIG}
    if oci.runtime in {RuntimeName.CRUN, RuntimeName.RUNSC, RuntimeName.OTHER_OCI}:
        # crun has no such command; runsc's tells what the programs in its sandbox use, and a cgroup has the sandbox.
        # The specification has none either.
        lacking.add(Capability.EVENTS)
    if driver is CgroupDriver.CGROUPFS or oci.called or oci.runtime is RuntimeName.RUNSC:
        # The annotations are no matter of the specification: runc and crun have them.
        lacking.add(Capability.UNIT_PROPERTIES)
    if oci.runtime is RuntimeName.RUNSC:
        lacking.add(Capability.UPDATE_OPTIONS)
        if driver is CgroupDriver.SYSTEMD or not oci.has(Feature.READS_UNIFIED):
            lacking |= {Capability.UNIFIED, Capability.UPDATE_UNIFIED}
        if not oci.has(Feature.HAS_UPDATE):
            lacking |= {Capability.UPDATE, Capability.UPDATE_UNIFIED}
    return frozenset(Capability) - lacking


def accepted(method: str, translation: OciTranslation) -> OciResources:
    """What reaches the runtime of a translation; its refusal is raised as the runtime's own."""
    if translation.refusal:
        raise command_refusal(method, "REFUSED", translation.refusal)
    return translation.resources


def command_refusal(method: str, code: str, details: str) -> RuntimeCallError:
    """The error of a command, with the first of its own words."""
    said = _kept(details, _WORDS)
    return RuntimeCallError(
        f"{method} ended in an error ({code}): {said}",
        where=method,
        data={"method": method, "code": code, "details": said},
    )


def version_of(text: str) -> RuntimeVersion | None:
    """Name and version in the first line of `--version`, and the version of the specification; None of no answer."""
    first = text.partition("\n")[0].split()
    spec = next((line.split()[-1] for line in text.splitlines() if line.startswith("spec")), "")
    return RuntimeVersion(name=first[0], version=first[-1], api_version=f"OCI {spec}".strip()) if first else None


def status_of(seen: SeenContainer) -> ContainerStatus:
    """What was seen of a container, as the port tells it: OOMKilled is an end by SIGKILL after an OOM kill in it."""
    killed = seen.oom and seen.exit_code == _KILLED
    reason = "" if seen.exit_code is None else "OOMKilled" if killed else "Error" if seen.exit_code else "Completed"
    return ContainerStatus(state=seen.state, exit_code=seen.exit_code, reason=reason, message="", resources=None)


def stats_of(text: str) -> Mapping[str, object]:
    """The data of the event that `events --stats` prints; MachineryError for what is no such event."""
    try:
        event = json.loads(text)
        return {"stats": dict(event["data"])}[event["type"]]
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"the runtime's event is '{text.strip()[:200]}', which has no stats.") from error


def event_types(text: str) -> tuple[str, ...]:
    """The types of events, a line each; an unfinished line is left out."""
    whole = text[: text.rfind("\n") + 1]
    try:
        return tuple(str(json.loads(line)["type"]) for line in whole.splitlines())
    except (ValueError, KeyError, TypeError) as error:
        raise MachineryError(f"the runtime's events are '{whole.strip()[:200]}', which are not events.") from error
