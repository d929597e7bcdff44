"""Errata: contradictions between an enhancement's text or table and its formula or the code.

If a kubelet could follow the text, the variant `documented` of the rules does; a wrong number in a table is only
corrected here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ERRATA", "Erratum", "errata_document", "errata_text"]

_KEP = "KEP-2570 Memory QoS"
_COPIES = "KEP-2570 Memory QoS, text of 2023"
_SWAP = "KEP-2400 Node swap"
_TESTS = "kubernetes, test/e2e_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """One mistake. says: the text's statement; holds: the correct one, or the code's behaviour.

    first, last: minor versions concerned. variant: whether `--as documented` follows the text.
    """

    id: str
    source: str
    says: str
    holds: str
    first: int
    last: int
    variant: bool = False

    @property
    def releases(self) -> str:
        """The releases in words: one, or the first to the last."""
        return f"1.{self.first}" if self.first == self.last else f"1.{self.first} to 1.{self.last}"


ERRATA = (
    Erratum(
        id="table-limit-1000",
        source=f"{_COPIES}, table for limit 1000 and factor 0.9",
        says="memory.high is 960 for the request 800, and 980 for the request 900",
        holds="the formula gives 980 and 990; the text of 2026 has these",
        first=27,
        last=36,
    ),
    Erratum(
        id="table-request-is-limit",
        source=f"{_KEP}, table for limit 1000 and factor 0.9",
        says="memory.high is 1000 for the request 1000",
        holds="the kubelet writes nothing where the request equals the limit",
        first=27,
        last=36,
    ),
    Erratum(
        id="comparison-units",
        source=f"{_COPIES}, comparison of the formulas of 1.22 and 1.27",
        says="requests of 1Gi (factor 0.6) and 500Gi (factor 0.4, '800<400') under a limit of 1000Mi",
        holds="the text means 1000Mi and 500Mi, and 400 < 500; the text of 2026 has these",
        first=22,
        last=36,
    ),
    Erratum(
        id="high-equals-request",
        source=f"{_COPIES}, example of early throttling",
        says="request 800Mi, limit 1000Mi, factor 0.8: memory.high is 800Mi",
        holds="memory.high must be greater than the request: 800Mi is not, and nothing is written",
        first=22,
        last=26,
    ),
    Erratum(
        id="compared-with-request",
        source=f"{_KEP}, description of memory.high",
        says="memory.high must be greater than memory.min",
        holds="the kubelet compares memory.high with the request, whatever memory.min is",
        first=22,
        last=37,
    ),
    Erratum(
        id="brief-map-columns",
        source=f"{_COPIES}, brief map of 1.27",
        says="the values of the node level are in the column of memory.high",
        holds="they belong to memory.min: the columns are shifted by one",
        first=27,
        last=36,
    ),
    Erratum(
        id="best-effort-high",
        source=f"{_KEP}, memory.high of BestEffort containers",
        says="a container without request and limit gets factor times the node's allocatable memory",
        holds="nothing is written: a request of 0 counts as equal to a limit of 0 (fixed in 1.37)",
        first=27,
        last=36,
        variant=True,
    ),
    Erratum(
        id="limit-only",
        source=f"{_KEP}, case III, a limit without a request",
        says="the request counts as 0",
        holds="the API copies the limit into the request: the case needs an explicit request of 0",
        first=22,
        last=37,
    ),
    Erratum(
        id="default-factor",
        source=f"{_KEP}, feature gate and rollout sections of the text for 1.37",
        says="memoryThrottlingFactor is 0.9 by default",
        holds="it is not set by default, and then memory.high is not written at all",
        first=37,
        last=37,
    ),
    Erratum(
        id="pod-level-high",
        source=f"{_KEP}, text for 1.37",
        says="memory.high is not set for pods",
        holds="it is, for a pod with memory limits at pod level, where the factor is set",
        first=37,
        last=37,
    ),
    Erratum(
        id="resize-reconciliation",
        source=f"{_KEP}, in-place resize",
        says="memory.min, memory.low and memory.high are recomputed in the next reconciliation",
        holds="no reconciliation writes those of the pod: up to 1.36 nothing does, in 1.37.0 only a resize that "
        "writes the pod's memory limit; those above pods follow within a minute",
        first=27,
        last=37,
        variant=True,
    ),
    Erratum(
        id="livelock-5.9",
        source=f"{_KEP}, text of 2026, and the kubelet's warning for kernels older than 5.9",
        says="from Linux 5.9 on reclaim above memory.high ensures forward progress: there is no livelock",
        holds="a program whose own text is its only page cache is stuck on 6.12, 6.18 and 7.0, and is not killed",
        first=36,
        last=37,
    ),
    Erratum(
        id="e2e-label",
        source=f"{_TESTS} memory_qos_test.go, case 'equal req limit (Guaranteed)'",
        says="the pod is Guaranteed",
        holds="it is Burstable: it sets no cpu",
        first=36,
        last=37,
    ),
    Erratum(
        id="swap-unset",
        source=f"{_SWAP}, comment of swapBehavior in the API",
        says="an unset swapBehavior means LimitedSwap",
        holds="it means unlimited swap in 1.28 and 1.29, and NoSwap from 1.30 on",
        first=28,
        last=29,
        variant=True,
    ),
    Erratum(
        id="swap-example",
        source=f"{_SWAP}, example of two pods on a node with 40 GB of memory and of swap",
        says="2 GB of swap are kept for the system: requests of 20 and 10 GB may swap 19 and 9.5 GB",
        holds="nothing is subtracted: they may swap 20 and 10 GB",
        first=28,
        last=37,
    ),
    Erratum(
        id="swap-test-names",
        source="kubernetes, kuberuntime_container_linux_test.go, 'Best-effort QoS, cgroups v2, LimitedSwap'",
        says="the pod is BestEffort",
        holds="it is Burstable",
        first=28,
        last=37,
    ),
)
"""All known errata, in the order of the texts."""


def errata_document() -> dict[str, Any]:
    """The errata as JSON: memqos_format (1) and errata, each with id, source, says, holds, releases, variant."""
    return {
        "memqos_format": 1,
        "errata": [
            {
                "id": one.id,
                "source": one.source,
                "says": one.says,
                "holds": one.holds,
                "releases": [f"1.{minor}" for minor in range(one.first, one.last + 1)],
                "variant": one.variant,
            }
            for one in ERRATA
        ],
    }


def errata_text() -> str:
    """The errata as text."""
    return "\n\n".join(
        "\n".join(
            [
                f"{one.id} ({one.releases})",
                f"  in    {one.source}",
                f"  says  {one.says}",
                f"  holds {one.holds}",
                *(["  both  --as documented follows the text"] if one.variant else []),
            ]
        )
        for one in ERRATA
    )
