"""Claims: the sentences that suites prove, one file per chapter, indexed by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.errors import UnknownNameError, UsageError
from memqos.validation import CheckedFile

__all__ = ["NEEDS", "About", "Asks", "Claim", "ClaimKind", "Claims", "is_suites_root", "load", "unproved"]

FILE_NAME = "claims.toml"
_DEFAULT = "default"

NEEDS: Mapping[str, str] = {
    "swap": "the machine has swap and its kernel counts it in memory.swap.max",
    "small swap": "the machine has swap, small enough that a program fills it within seconds",
    "roomy shares": "the machine's swap is at least a fifth of its memory, so containers' shares are large enough",
    "scant shares": "the machine's swap is at most one and a half times its memory, so a program can fill its share",
    "noswap": "the kernel has the mount option noswap of tmpfs",
    "zswap": "the kernel can keep swapped-out pages compressed in memory, and limits them by memory.zswap.max",
    "zswap writeback": "the same, and memory.zswap.writeback keeps it from the swap device",
    "no zswap": "zswap is off, so swapped-out pages leave memory and are no longer charged",
    "memory_recursiveprot": "cgroups are mounted with memory_recursiveprot, as systemd mounts them",
    "bare scope": "the runtime puts containers below a scope without protection, as crun before 1.18",
    "no bare scope": "no scope without protection is between a pod and its containers",
    "psi": "the kernel has PSI (memory.pressure can be read)",
    "NUMA nodes": "the machine has at least two NUMA nodes",
    "two NUMA nodes": "the machine has exactly two NUMA nodes, as the kubelets' reservedMemory requires",
    "small NUMA nodes": "no NUMA node of the machine has room for two of the pods that fill most of one",
    "far NUMA node": "the machine has a NUMA node with memory and no CPUs",
    "three NUMA nodes": "the machine has at least three NUMA nodes",
    "distances": "the machine has a NUMA node with CPUs, one near to it, and one farther away",
    "2 MiB pages": "the machine can reserve huge pages of 2 MiB",
    "unified": "the runtime passes CRI's `unified` to cgroup files",
    "update": "the runtime can update a running container",
    "update unified": "the runtime passes CRI's `unified` on in updates",
    "cpuset.mems": "the runtime accepts CRI's cpuset_mems",
    "OOM reason": "the runtime reports OOMKilled for a container that the kernel killed",
    "own machine": "the machine was booted for this run, so its services may be restarted",
    "CRI": "memqos drives the runtime over CRI",
    "cgroup v1": "the machine's memory controller is on cgroup v1",
    "cgroup v2": "the machine's memory controller is on cgroup v2",
    "docker": "the runtime is the Docker Engine, which accepts a HostConfig",
    "oci": "the runtime is an OCI runtime that memqos drives directly, with bundles",
    "modelled": "memqos models the OCI runtime, version by version",
    "unit properties": "the OCI runtime turns annotations into properties of the container's systemd unit",
    "options of update": "the OCI runtime's update accepts options",
    "events": "the OCI runtime has the command events",
    "memory policy": "the OCI runtime sets the NUMA memory policy of linux.memoryPolicy",
    "no memory policy": "the OCI runtime does not know linux.memoryPolicy",
    "kubelet": "a kubelet runs in the machine, and memqos is not in its place",
    "two kubelets": "two kubelets of different releases are given, so one can be upgraded to the other",
    "kubelet resizes": "the kubelet in the machine resizes pods in place, as kubelets since 1.33 do",
}
"""What a claim can need, and what that means; a machine or runtime without it makes the claim not observable."""
_FORMER_NEEDS = {
    "zones": "NUMA nodes",
    "two zones": "two NUMA nodes",
    "far zone": "far NUMA node",
    "three zones": "three NUMA nodes",
}
"""Needs by their names up to 0.1, which are still read."""


class ClaimKind(StrEnum):
    """How a claim is shown: by values at rest, by what happens over time, or by a refusal."""

    STATE = "state"
    BEHAVIOUR = "behaviour"
    REFUSAL = "refusal"


class About(StrEnum):
    """The component that a claim is about: its values or its behaviour must be observed."""

    RUNTIME = "runtime"
    KERNEL = "kernel"
    KUBELET_RULES = "kubelet rules"
    KUBELET = "kubelet"


_ANSWERS_FOR = {About.RUNTIME: Setter.RUNTIME, About.KERNEL: Setter.KERNEL, About.KUBELET: Setter.KUBELET}
"""The setter of what proves a claim. The kubelet's rules are about values, by any writer."""


class Asks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the case of a claim does, where that is no test of its own: a verb or kubelets.

    verb: a verb of `memqos.node.requests` ("left_alone"). request: the name of the request that it takes, "" for none.
    of: what else it takes ("cgroups"). kubelets: ids of two kubelets or more, each of which takes over from the one
    before.
    """

    verb: str = ""
    request: str = ""
    of: tuple[str, ...] = ()
    kubelets: tuple[str, ...] = ()


_Text = Annotated[str, Meta(pattern=r"\S", description="a string that is not blank")]


class Claim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sentence and where it comes from.

    id: chapter/name. releases: "1.22+", "1.22-1.36", "1.27" (Kubernetes) or "any" (the kernel's or runtime's own).
    about: on whose doing it rests. needs: names of NEEDS. default: whether a run of whole suites proves it
    without being asked for everything. asks: what its case does, None where it is a request of that name or a test.
    """

    id: str
    sentence: _Text
    source: _Text
    releases: _Text
    kind: ClaimKind
    about: About
    needs: tuple[str, ...] = ()
    default: bool = True
    asks: Asks | None = None

    def to_json(self) -> dict[str, str]:
        """What a bundle keeps of it: enough to be read without the suites."""
        return {"sentence": self.sentence, "source": self.source, "kind": self.kind.value, "about": self.about.value}

    @property
    def chapter(self) -> str:
        """The suite folder's name."""
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        """Its name in its chapter."""
        return self.id.partition("/")[2]


def unproved(about: About, findings: Iterable[Finding]) -> str:
    """Why findings without a deviation prove nothing about the subject of a claim; "" if they do.

    What memqos wrote itself and reads back, for one, proves nothing of a runtime.
    """
    whose = _ANSWERS_FOR.get(about)
    observed = {one.set_by for one in findings if one.verdict in {Verdict.CONFORMS, Verdict.KNOWN}}
    if whose is None or whose in observed:
        return ""
    others = ", ".join(setter for setter in Setter if setter in observed)
    return (
        f"the claim is about the {about}, and nothing set by {whose} was observed, only values set by others: {others}"
    )


class Claims(Mapping[str, Claim]):
    """All claims of a suites folder, by id."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        self._claims = dict(claims)

    def __getitem__(self, key: str) -> Claim:
        """The claim of this id; UnknownNameError naming the known ones."""
        if key not in self._claims:
            raise UnknownNameError.of("claim", key, sorted(self._claims))
        return self._claims[key]

    def __contains__(self, key: object) -> bool:
        return key in self._claims

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def __len__(self) -> int:
        return len(self._claims)


def is_suites_root(folder: Path) -> bool:
    """Whether chapters with claims lie directly in this folder."""
    return any(folder.glob(f"*/{FILE_NAME}"))


def load(root: Path) -> Claims:
    """Every claim below a suites folder.

    Raises UsageError if there is none, ManifestError for a file that is not as the reference describes it.
    """
    files = sorted(root.glob(f"*/{FILE_NAME}"))
    if not files:
        raise UsageError(f"there is no chapter with a {FILE_NAME} in '{root}'.", next_step="Name a suites folder.")
    return Claims({claim.id: claim for file in files for claim in _chapter(file)})


def _chapter(file: Path) -> Iterator[Claim]:
    found = CheckedFile.toml(file, what="the claims")
    chapter = file.parent.name
    default = found.checked((_DEFAULT,), bool, field=chapter) if _DEFAULT in found.document else True
    for name, given in found.document.items():
        if name != _DEFAULT:
            value = {_DEFAULT: default, **given} if isinstance(given, dict) else given
            claim_id = f"{chapter}/{name}"
            claim = found.checked((name,), Claim, field=claim_id, value=value, more={"id": claim_id})
            claim = structs.replace(claim, needs=tuple(_FORMER_NEEDS.get(need, need) for need in claim.needs))
            for key, what, next_step in _contradictions(claim):
                raise found.error(what, (name, key), field=claim_id, next_step=next_step)
            yield claim


def _contradictions(claim: Claim) -> Iterator[tuple[str, str, str]]:
    """What its types do not say: the field, what is wrong, and the next step."""
    if unknown := sorted(set(claim.needs) - set(NEEDS)):
        yield "needs", f"'needs' has an unknown need '{unknown[0]}'.", f"Known: {', '.join(NEEDS)}."
    asks = claim.asks
    if asks is None:
        return
    if bool(asks.verb) == bool(asks.kubelets) or (asks.kubelets and (asks.request or asks.of)):
        yield "asks", "'asks' has either a verb or kubelets.", ""
    elif len(asks.kubelets) == 1:
        yield "asks", "kubelets take over from each other: name two.", ""
