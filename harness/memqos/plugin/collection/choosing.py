"""What a run of whole suites leaves to `--all`, so that it is done within minutes; what is named is never left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest

from memqos.catalog.data import data_root
from memqos.claims import Claim
from memqos.config.runtimes import DIRECTLY, below_docker
from memqos.config.settings import Settings
from memqos.report.bundle import LeftOut

__all__ = ["left_out", "told_of"]


def left_out(
    config: pytest.Config,
    settings: Settings,
    cited: Sequence[tuple[pytest.Item, Claim | None]],
    *,
    kubelets: Callable[[], Collection[str]],
    runtime_of: Callable[[pytest.Item], str],
) -> list[pytest.Item]:
    """The cases that this run does not have.

    cited: every case, with the claim that it cites. kubelets: the ids of those of the default, asked for if need be.
    runtime_of: the runtime of a case. None with --all or --last-failed, and none where somebody chose by -k or -m. A
    case is left out by its marker or its claim, or because that needs a kind of runtime that its own is not. One of
    memqos's own suites is by its kubelet as well, if nobody asked for its release; a test that names none but such
    kubelets has them.
    """
    if settings.all or settings.last_failed or config.option.keyword or config.option.markexpr:
        return []
    brought = data_root() / "suites"
    places = [config.invocation_params.dir / word.partition("::")[0] for word in config.args]

    def is_named(item: pytest.Item) -> bool:
        return any(place.is_relative_to(item.path.parent) for place in places)

    def is_of_another(item: pytest.Item, claim: Claim) -> bool:
        by_docker = "docker" in claim.needs and not below_docker(runtime_of(item))
        return by_docker or ("oci" in claim.needs and not runtime_of(item).startswith(DIRECTLY))

    def is_more(item: pytest.Item, claim: Claim | None) -> bool:
        by_kubelet = (
            not settings.kubernetes and item.path.is_relative_to(brought) and _has_more_kubelets(item, kubelets)
        )
        return (
            _is_marked_more(item)
            or (claim is not None and (not claim.default or is_of_another(item, claim)))
            or by_kubelet
        )

    return [item for item, claim in cited if is_more(item, claim) and not is_named(item)]


def _is_marked_more(item: pytest.Item) -> bool:
    """Whether the marker says so of the test, or of the kubelet that the case is run under."""
    marker = item.get_closest_marker("more")
    return marker is not None and (not marker.args or getattr(_kubelet_of(item), "entry", "") in marker.args)


def _kubelet_of(item: pytest.Item) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("qos_kubelet") if callspec is not None else None


def _has_more_kubelets(item: pytest.Item, kubelets: Callable[[], Collection[str]]) -> bool:
    """Whether the kubelet of a case is one of those that the default has not."""
    marker = item.get_closest_marker("kubelet")
    named = set(marker.args) if marker is not None else set()
    return not getattr(_kubelet_of(item), "default", True) and (not named or not named.isdisjoint(kubelets()))


def told_of(cited: Sequence[tuple[pytest.Item, Claim | None]], left: Sequence[pytest.Item]) -> LeftOut:
    """How much that is: the cases, and the claims of which no case is left in."""
    out = set(left)
    of_cases = {claim.id for item, claim in cited if claim is not None and item in out}
    proved = {claim.id for item, claim in cited if claim is not None and item not in out}
    return LeftOut(claims=len(of_cases - proved), cases=len(left))
