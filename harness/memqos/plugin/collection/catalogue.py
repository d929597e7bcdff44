"""The fixture catalogue as tests see it: pods, kubelets and requests by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from memqos.catalog.data import data_root
from memqos.catalog.kubelets import KubeletCase, load_kubelets
from memqos.catalog.pods import load_pod_catalog, load_stored_pods
from memqos.catalog.requests import AnyRequestCase, OciRequestCase, RequestCase, load_all_requests
from memqos.errors import UnknownNameError
from memqos.model.pod import Pod

__all__ = ["Catalogue"]

Case = TypeVar("Case", RequestCase, OciRequestCase)


class Catalogue:
    """The contents of `fixtures`: pods, behaviour pods, kubelets.toml, and requests; read on first use."""

    @cached_property
    def pods(self) -> Sequence[Pod]:
        """Every pod shape, in the order of the files."""
        return load_pod_catalog()

    def pod(self, name: str) -> Pod:
        """A pod of the catalogue or of the behaviour pods; UnknownNameError with the known names."""
        known = {pod.name: pod for pod in (*self.pods, *self._behaviour_pods)}
        if name not in known:
            raise UnknownNameError.of("pod", name, sorted(known))
        return known[name]

    def kubelet(self, name: str) -> KubeletCase:
        """A kubelet; UnknownNameError with the known names."""
        known: Mapping[str, KubeletCase] = {kubelet.id: kubelet for kubelet in self._kubelets}
        if name not in known:
            raise UnknownNameError.of("kubelet", name, list(known))
        return known[name]

    def any_request(self, name: str) -> AnyRequestCase:
        """A request for one container, in CRI's, OCI's or Docker's words; UnknownNameError with the known names."""
        if name not in self._requests:
            raise UnknownNameError.of("request", name, sorted(self._requests))
        return self._requests[name]

    def request(self, name: str) -> RequestCase:
        """A request in the words of CRI."""
        return self._in_words(name, RequestCase)

    def oci_request(self, name: str) -> OciRequestCase:
        """A request in the words of OCI runtimes."""
        return self._in_words(name, OciRequestCase)

    @property
    def plain_requests(self) -> Sequence[RequestCase]:
        """All requests in the words of CRI, except those that are read seconds later."""
        return [one for one in self._requests.values() if isinstance(one, RequestCase) and not one.later]

    def _in_words(self, name: str, kind: type[Case]) -> Case:
        found = self.any_request(name)
        if not isinstance(found, kind):
            known = [name for name, case in self._requests.items() if isinstance(case, kind)]
            raise UnknownNameError.of("request in these words", name, sorted(known))
        return found

    @cached_property
    def _requests(self) -> Mapping[str, AnyRequestCase]:
        return load_all_requests()

    @cached_property
    def _behaviour_pods(self) -> Sequence[Pod]:
        return load_stored_pods(sorted((data_root() / "fixtures" / "pods" / "behaviour").glob("*.yaml")))

    @cached_property
    def _kubelets(self) -> tuple[KubeletCase, ...]:
        return load_kubelets()
