"""Selects the cases that can notice a mutant, from the verbs that each case uses and the files that it reads.

A case of a request reads every file of its container, of the neighbouring container, of their pod and above. So it
notices a fault that changes one of its requests, or a write after a verb that it uses. The cheapest cases come first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memqos.cases import Case, CaseKind
from memqos.catalog.requests import AnyRequestCase, OciRequestCase, RequestCase
from memqos.claims import ClaimKind
from memqos.engine.translate.oci import oci_for_create, oci_for_update
from memqos.engine.translate.runtimes import Runtimes
from memqos.errors import UnknownNameError
from memqos.model.knob import Knob
from memqos.mutants.programs.oci_runtime import changed
from memqos.mutants.table import CriFault, Level, Mutant, OciFault
from memqos.runtime import cri_wire

__all__ = ["LATER", "CaseChoice", "verbs_of_case"]

LATER = "later"
"""The word for a case that reads a container again some seconds after its last request."""
OF_VALUES = ("values/node", "values/qos-class", "values/pod")
"""The claims about what an enactor writes."""
_VALUES_OF = {
    Level.NODE: "values/node",
    Level.CLASS: "values/qos-class",
    Level.POD: "values/pod",
    Level.CONTAINER: "values/pod",
}
_BASE = frozenset({"create", "start"})

_OF_VERBS: Mapping[str, tuple[frozenset[str], float]] = {
    "left_alone": (_BASE | {"update", "exec", LATER}, 10),
    "updated_in_use": (_BASE | {"update"}, 5),
    "exec_in_it": (_BASE | {"exec"}, 5),
    "stats_requested": (_BASE | {"state"}, 5),
    "made_again": (_BASE | {"update", "exec", "delete"}, 5),
    "before_its_start": (_BASE, 3),
    "several_in_a_pod": (_BASE | {"update"}, 6),
    "written_by_others": (_BASE | {"update"}, 3),
    "systemd_reloaded": (_BASE | {"update", "reload"}, 6),
    "systemd_replaced": (_BASE | {"reload"}, 8),
    "daemon_restarted": (_BASE | {"update", "restart"}, 15),
    "created_and_updated": (_BASE | {"update"}, 4),
    "ended_and_updated": (_BASE, 4),
    "updated_after_exec": (_BASE | {"update", "exec"}, 4),
    "updated_during_exec": (_BASE | {"update", "exec"}, 7),
    "neighbour_stopped": (_BASE | {"delete", "kill"}, 3),
    "reports_resources": (frozenset({"status"}), 3),
    "exec_is_charged": (frozenset({"exec"}), 5),
    "exec_is_alike": (frozenset({"exec"}), 5),
    "exec_is_bound": (frozenset({"exec"}), 5),
    "left_by_few": (frozenset({"delete"}), 8),
    "oom_kill_reported": (frozenset({"oom"}), 6),
    "kill_reported": (frozenset({"status"}), 3),
    "group_is_killed": (frozenset({"oom", "exec"}), 6),
    "uses": (frozenset({"stats"}), 5),
    "uses_under_load": (frozenset({"stats"}), 7),
    "pod_uses": (frozenset({"pod stats"}), 5),
    "sandbox_in_its_parent": (frozenset({"sandbox"}), 2),
    "sandbox_as_it_comes": (frozenset({"sandbox"}), 2),
    "second_sandbox": (frozenset({"sandbox"}), 4),
    "sandbox_updated": (frozenset({"sandbox update"}), 2),
    "driver": (frozenset({"RuntimeConfig"}), 1),
    "limited_below_use": (frozenset({"update", "oom"}), 7),
    "reports_no_more": (frozenset({"status"}), 2),
    "stats_in_time": (frozenset({"stats"}), 3),
}
"""By the verb of a claim, the verbs and words of its case, and about how many seconds it takes."""


_OF_CALLS: Mapping[str, frozenset[str]] = {
    "RunPodSandbox": frozenset({"sandbox_in_its_parent", "sandbox_as_it_comes", "second_sandbox"}),
    "UpdatePodSandboxResources": frozenset({"sandbox_updated"}),
    "RemovePodSandbox": frozenset({"left_by_few"}),
    "PodSandboxStats": frozenset({"pod_uses", "pod_counts_uses", "pod_uses_under_load"}),
    "ListPodSandboxStats": frozenset({"lists_pod_uses", "lists_pod_counts_uses", "lists_pod_uses_under_load"}),
    "RemoveContainer": frozenset({"left_by_few", "neighbour_stopped", "made_again"}),
    "StopContainer": frozenset({"neighbour_stopped"}),
    "ContainerStatus": frozenset({"reports_resources", "reports_no_more", "oom_kill_reported", "kill_reported"}),
    "ContainerStats": frozenset({"uses", "uses_under_load", "stats_in_time"}),
    "ListContainerStats": frozenset({"lists_uses", "lists_uses_under_load"}),
    "ExecSync": frozenset({"exec_is_charged", "exec_is_alike", "exec_is_bound"}),
    "RuntimeConfig": frozenset({"driver"}),
}
"""By the method of a CRI server, the verbs of the claims that depend on its answer."""

_OF_MACHINES = (
    "requests/everything",
    "requests/update-everything",
    "lifecycle/stays",
    "requests/update-later",
    "lifecycle/daemon-reload",
)
"""The claims for a fault of the machine whose row names none: what any container holds, at once and after a while."""

_RESTARTS = "made_again"
"""The verb of the claims whose case deletes a container of a pod and creates another one."""
_ENTERS = ("exec_in_it", "updated_after_exec", "left_alone")
"""The verbs of the claims whose case makes requests after an exec."""
_CONTAINERS: Mapping[str, int] = {_RESTARTS: 2, "several_in_a_pod": 4}
"""By the verb of a claim, how many containers its case creates in one pod; 1 for all others."""


def verbs_of_case(case: Case, request: AnyRequestCase | None) -> frozenset[str]:
    """The OCI runtime verbs and the words of _OF_VERBS that a case uses; empty for other cases."""
    if case.kind is CaseKind.REQUEST and request is not None:
        return _BASE | ({"update"} if request.updates else set()) | ({LATER} if request.later else set())
    return _OF_VERBS.get(case.asks.verb, (frozenset(), 0.0))[0]


@dataclass(frozen=True)
class CaseChoice:
    """Selects cases for mutants. runtimes: the models that translate requests.

    cases: by claim id. requests: the whole catalogue, by name. patient: whether to include cases that wait for seconds.
    default_run: only cases of the default run.
    """

    cases: Mapping[str, Case]
    requests: Mapping[str, AnyRequestCase]
    runtimes: Runtimes
    patient: bool = True
    default_run: bool = False

    def candidates(self, mutant: Mutant) -> Sequence[Case]:
        """The cases for a mutant: those of its claims, in their order, or else the cheapest first.

        The default run may notice by other cases what the mutant's claims notice first: then all that can come after
        those of its claims. UnknownNameError for a claim that does not exist or has no case here.
        """
        named = [self._named(name, mutant) for name in mutant.claims]
        if not self.default_run:
            return named or self._noticing(mutant)
        others = () if mutant.machine is not None and named else self._noticing(mutant)
        found = {one.claim.id: one for one in (*named, *others)}
        return [one for one in found.values() if one.claim.default]

    def _noticing(self, mutant: Mutant) -> Sequence[Case]:
        if mutant.plan is not None:
            # The claim about the mutant's own level first.
            own = [_VALUES_OF[level] for level in mutant.levels if level in _VALUES_OF]
            return [self.cases[name] for name in dict.fromkeys([*own, *OF_VALUES])]
        if mutant.machine is not None:
            return [self.cases[name] for name in _OF_MACHINES]
        oci, cri = mutant.oci, mutant.cri
        cases = self.cases.values()
        found = [one for one in cases if (oci and self._notices(oci, one)) or (cri and self._depends(cri, one))]
        return sorted(found, key=self._cost)

    def _named(self, name: str, mutant: Mutant) -> Case:
        if name not in self.cases:
            raise UnknownNameError.of(
                "claim with a case", name, sorted(self.cases), where=f"{mutant.file}: {mutant.name}"
            )
        return self.cases[name]

    def _cost(self, case: Case) -> tuple[float, bool]:
        """The sort key of a case: about how many seconds it takes, then whether the default run has it."""
        request = self.request_of(case)
        if case.kind is CaseKind.REQUEST and request is not None:
            seconds = 1 + 0.5 * len(request.updates) + (12 if request.later else 0)
        else:
            seconds = _OF_VERBS.get(case.asks.verb, (frozenset[str](), 20.0))[1]
        return seconds, not case.claim.default

    def request_of(self, case: Case) -> AnyRequestCase | None:
        """The request of a case; None without one."""
        return self.requests.get(case.asks.request)

    def _notices(self, fault: OciFault, case: Case) -> bool:
        request = self.request_of(case)
        passed = verbs_of_case(case, request)
        if request is None or request.refused or not passed & set(fault.on) or fault.sandbox:
            return False
        # A mutant about refusals names its claims in its row.
        if case.claim.kind is ClaimKind.REFUSAL or case.claim.chapter == "refusal":
            return False
        if (LATER in passed and not self.patient) or ((fault.late or fault.loop) and LATER not in passed):
            return False
        containers = 2 if LATER in passed and request.later else _CONTAINERS.get(case.asks.verb, 1)
        if (fault.only.container or 1) > containers:
            return False
        enters = case.asks.verb in _ENTERS
        if (fault.only.again and case.asks.verb != _RESTARTS) or (fault.only.entered and not enters):
            return False
        number = fault.only.update
        return (number is None or len(request.updates) >= number) and self._shows_in(fault, request, passed)

    def _depends(self, fault: CriFault, case: Case) -> bool:
        """Whether a case depends on the answer of a CRI server's method, or its requests are changed there."""
        if case.asks.verb in _OF_CALLS.get(fault.method, ()):
            return True
        request = self.request_of(case)
        verb = {"CreateContainer": "create", "StartContainer": "start", "UpdateContainerResources": "update"}.get(
            fault.method, ""
        )
        is_refusal = case.claim.kind is ClaimKind.REFUSAL or case.claim.chapter == "refusal"
        if not isinstance(request, RequestCase) or request.refused or is_refusal:
            return False
        if verb not in verbs_of_case(case, request) or fault.number > self._calls(case, request, verb):
            return False
        if fault.of and case.asks.verb not in _CONTAINERS and not request.later:
            return False
        if not fault.request or any(_is_beside_resources(one.field) for one in fault.request):
            return True
        return any(_alters_call(fault, one) for one in _calls_of(request, verb))

    def _calls(self, case: Case, request: RequestCase, verb: str) -> int:
        """How many calls of this verb a case makes."""
        return len(request.updates) if verb == "update" else _CONTAINERS.get(case.asks.verb, 2 if request.later else 1)

    def _shows_in(self, fault: OciFault, request: AnyRequestCase, passed: frozenset[str]) -> bool:
        """Whether the fault changes the requests or the resulting files."""
        documents = list(self._documents(request, passed & set(fault.on)))
        if fault.only.requires and not any(_has_all(one, fault.only.requires) for one in documents):
            return False
        if fault.change or fault.process:
            score = getattr(request.create, "oom_score_adj", 0)
            return any(_alters(fault, document) for document in documents) or _alters_score(fault, score)
        if fault.write:
            return any(one.at != "container" or _shows(one.file, one.text, request) for one in fault.write)
        return True

    def _documents(self, case: AnyRequestCase, verbs: frozenset[str]) -> Iterator[dict[str, Any]]:
        """linux.resources of each request that an OCI runtime gets in these verbs."""
        if isinstance(case, OciRequestCase):
            if "create" in verbs:
                yield case.create.resources.document()
            if "update" in verbs:
                yield from (one.resources.document() for one in case.updates)
        elif isinstance(case, RequestCase):
            cri, oci, huge = self.runtimes.cri, self.runtimes.oci.runtime, self.runtimes.passes_huge_pages
            held = oci_for_create(case.create, cri, hugetlb=huge, oci=oci).resources
            if "create" in verbs:
                yield held.document()
            for update in case.updates if "update" in verbs else ():
                held = oci_for_update(held, update, cri, hugetlb=huge).resources
                yield held.document()


def _calls_of(case: RequestCase, verb: str) -> Iterator[dict[str, Any]]:
    """The parts of CRI's messages with the resources that a case requests."""
    for resources in case.updates if verb == "update" else (case.create,):
        asked = cri_wire.message_json(cri_wire.resources_to_wire(resources))
        yield {"linux": asked} if verb == "update" else {"config": {"linux": {"resources": asked}}}


_RESOURCES = ("linux", "config/linux/resources")
"""The resources in the messages of UpdateContainerResources and CreateContainer."""


def _is_beside_resources(field: str) -> bool:
    """Whether a changed field of a message is none of a container's resources, so that any request shows it."""
    return not any(field == one or field.startswith(f"{one}/") for one in _RESOURCES)


def _alters_call(fault: CriFault, document: dict[str, Any]) -> bool:
    altered = copy.deepcopy(document)
    changed(altered, [one.document() for one in fault.request])
    return altered != document


def _has_all(document: Mapping[str, Any], fields: Sequence[str]) -> bool:
    for field in fields:
        section, _, key = field.rpartition("/")
        if key not in ((document.get(section) or {}) if section else document):
            return False
    return True


def _alters(fault: OciFault, document: dict[str, Any]) -> bool:
    if not _has_all(document, fault.only.requires):
        return False
    altered = copy.deepcopy(document)
    changed(altered, [one.document() for one in fault.change])
    # A change may create an empty section.
    return {name: one for name, one in altered.items() if one} != {name: one for name, one in document.items() if one}


def _alters_score(fault: OciFault, score: int) -> bool:
    process = {"oomScoreAdj": score}
    changed(process, [one.document() for one in fault.process])
    return process.get("oomScoreAdj", 0) != score


def _shows(file: str, text: str, case: AnyRequestCase) -> bool:
    """Whether this text differs from the file's value without the write, if the request determines that."""
    default = str(Knob(file).kernel_default) if file in list(Knob) else ""
    return text != default or file in _asked_files(case)


_FILES = {
    "memory_limit_in_bytes": "memory.max",
    "memory_swap_limit_in_bytes": "memory.swap.max",
    "cpu_shares": "cpu.weight",
    "cpu_quota": "cpu.max",
    "cpuset_cpus": "cpuset.cpus",
    "cpuset_mems": "cpuset.mems",
    "memory_limit": "memory.max",
    "memory_swap": "memory.swap.max",
    "cpus": "cpuset.cpus",
    "mems": "cpuset.mems",
}
"""The interface file of each field."""


def _asked_files(case: AnyRequestCase) -> frozenset[str]:
    """The interface files to which the requests give another value than the kernel's default."""
    found: dict[str, str] = {}
    for request in case.requests:
        words = getattr(request, "resources", request)
        for field, file in _FILES.items():
            if value := getattr(words, field, None):
                found[file] = "max" if value == -1 else str(value)
        for size, limit in getattr(words, "hugepage_limits", None) or ():
            found |= {f"hugetlb.{size}.{name}": str(limit) for name in ("max", "rsvd.max")}
        found.update(getattr(words, "unified", {}))
    return frozenset(file for file, text in found.items() if text not in {"0", "max"})
