"""Every kind of JSON document, by its entries."""

from collections.abc import Iterator
from typing import Any

from memqos.engine.answer.difference import differences, differences_document
from memqos.engine.answer.document import plan_document
from memqos.engine.cgroup.protection import protection_document
from memqos.engine.releases.errata import errata_document
from memqos.engine.resize.outcome import resize_document
from tests.golden.reasons.nodes import PODS
from tests.golden.reasons.pages import laid_out
from tests.golden.reasons.plans import kubelet_of, plan_of
from tests.golden.reasons.resizes import RESIZES
from tests.golden.reasons.tables import (
    ON_V1,
    PAIRS,
    PLANNED,
    TRANSLATED,
    WITHOUT_ROOM,
    ZONED,
    compared,
    few,
    protections,
    reclassed,
    translated,
)


def entries(title: str, document: Any) -> Iterator[str]:
    """A document by its fields, and a list by its entries."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from (
                entries(f"{title}: {name}", value)
                if isinstance(value, list)
                else [f"{title}: {name}: {laid_out(value)}"]
            )
    else:
        yield from (f"{title}: {laid_out(one)}" for one in document)


def plans() -> Iterator[str]:
    yield from entries(ZONED, plan_document(few(ZONED, PODS[1:2])))
    for title, pod in (("a sidecar and overhead", PODS[8]), ("held on a zone", PODS[0])):
        yield from entries(title, plan_document(few(ZONED, (pod,)))["pods"])
    yield from entries(ON_V1, {"unavailable": plan_document(few(ON_V1))["unavailable"]})
    yield from entries("refusals", plan_document(plan_of(PLANNED[WITHOUT_ROOM]))["refusals"])


def languages() -> Iterator[str]:
    for title in TRANSLATED:
        yield from entries(
            title,
            plan_document(plan_of(translated(title)), translated_for=kubelet_of(translated(title)))["pods"],
        )


def answers() -> Iterator[str]:
    yield from entries("differences", differences_document(differences(*compared(PAIRS[0])), *PAIRS[0]))
    yield from entries("another class", differences_document(differences(*reclassed()), "before", "after"))
    yield from entries("errata", errata_document())
    for title, found in protections().items():
        yield from entries(f"protection, {title}", protection_document(found))


def resized() -> Iterator[str]:
    for title in (
        "nothing changes",
        "a static pod of 1.31",
        "refused by the API server",
        "shrinking in 1.33, made again",
    ):
        yield from entries(title, resize_document(RESIZES[title]()))
