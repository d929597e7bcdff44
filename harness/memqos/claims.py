"""Claims: the sentences that suites prove, one file per chapter, indexed by id."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from memqos.errors import ManifestError, UnknownNameError, UsageError

__all__ = ["NEEDS", "Claim", "ClaimKind", "Claims", "is_suites_root", "load"]

FILE_NAME = "claims.toml"

NEEDS: Mapping[str, str] = {
    "swap": "the machine has swap and its kernel counts it in memory.swap.max",
    "psi": "the kernel measures pressure (memory.pressure can be read)",
    "zones": "the machine has two NUMA zones or more",
    "unified": "the runtime passes CRI's `unified` to cgroup files",
    "cpuset.mems": "the runtime takes CRI's cpuset_mems",
    "OOM reason": "the runtime says OOMKilled of a container that the kernel killed",
    "cgroup v1": "the machine's memory controller is on cgroup v1",
    "cgroup v2": "the machine's memory controller is on cgroup v2",
}
"""What a claim can need, and what that means; a machine or runtime without it makes the claim not observable."""


class ClaimKind(StrEnum):
    """How a claim is shown: by values at rest, by what happens over time, or by a refusal."""

    STATE = "state"
    BEHAVIOUR = "behaviour"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One sentence and where it comes from.

    id: chapter/name. releases: "1.22+", "1.22-1.36", "1.27" (Kubernetes) or "any" (the kernel's or runtime's own).
    needs: names of NEEDS.
    """

    id: str
    sentence: str
    source: str
    releases: str
    kind: ClaimKind
    needs: tuple[str, ...] = ()

    @property
    def chapter(self) -> str:
        """The suite folder's name."""
        return self.id.partition("/")[0]


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
    claims: dict[str, Claim] = {}
    for file in files:
        for claim in _chapter(file):
            if claim.id in claims:
                raise ManifestError.at(f"the claim '{claim.id}' is there twice.", file=str(file))
            claims[claim.id] = claim
    return Claims(claims)


def _chapter(file: Path) -> Iterator[Claim]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError.at(f"the file is not TOML: {error}.", file=str(file)) from None
    chapter = file.parent.name
    for name, fields in document.items():
        if not isinstance(fields, dict):
            raise ManifestError.at("a claim is a table.", file=str(file), field=name, got=fields)
        yield _claim(f"{chapter}/{name}", fields, str(file))


def _claim(claim_id: str, fields: Mapping[str, object], file: str) -> Claim:
    unknown = set(fields) - {"sentence", "source", "releases", "kind", "needs"}
    if unknown:
        raise ManifestError.at(f"unknown field '{min(unknown)}'.", file=file, field=claim_id)
    texts = {}
    for key in ("sentence", "source", "releases", "kind"):
        value = fields.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ManifestError.at(f"'{key}' must be a text that says something.", file=file, field=claim_id, got=value)
        texts[key] = value.strip()
    if texts["kind"] not in [kind.value for kind in ClaimKind]:
        known = ", ".join(ClaimKind)
        raise ManifestError.at(
            f"the kind '{texts['kind']}' is not known.", file=file, field=claim_id, next_step=f"Known: {known}."
        )
    needs = fields.get("needs", [])
    if not isinstance(needs, list) or not all(need in NEEDS for need in needs):
        raise ManifestError.at(f"'needs' lists some of: {', '.join(NEEDS)}.", file=file, field=claim_id, got=needs)
    return Claim(
        id=claim_id,
        sentence=texts["sentence"],
        source=texts["source"],
        releases=texts["releases"],
        kind=ClaimKind(texts["kind"]),
        needs=tuple(needs),
    )
