"""memqos in the kubelet's place: it makes the cgroups that a kubelet makes, and tells the runtime what one tells it."""

from __future__ import annotations

from collections.abc import Sequence

from memqos.cgroupfs.tree import CgroupTree
from memqos.clock import Deadline
from memqos.enactor.admission import Admission, patience_with_pods
from memqos.enactor.base import Ability
from memqos.enactor.patience import Patience
from memqos.enactor.standing import Standing
from memqos.enforce.apply import find_leftovers
from memqos.engine.answer.finding import Setter
from memqos.engine.cgroup.layout import Layout
from memqos.model.path import CgroupPath
from memqos.runtime.base import Runtime

__all__ = ["KubeletsPlace"]

LOOKING_SECONDS = 60.0


class KubeletsPlace:
    """The enactor of a place without a kubelet. parallel: pods that are started at the same time (>= 1).

    layout: where the runtime keeps containers. patience: with the pods that are started, where places of one kind are
    used one after another.
    """

    setter = Setter.MEMQOS

    def __init__(
        self,
        *,
        runtime: Runtime,
        tree: CgroupTree,
        layout: Layout,
        parallel: int = 1,
        patience: Patience | None = None,
    ) -> None:
        self._tree = tree
        self._admission = Admission(
            runtime=runtime, tree=tree, layout=layout, parallel=parallel, patience=patience or patience_with_pods()
        )

    def why_not(self, ability: Ability) -> str:  # noqa: ARG002
        """Nothing: it does all of it."""
        return ""

    def begin(self, name: str) -> Standing:
        """Nothing yet; the cgroups that come are marked with this name."""
        return Standing(tree=self._tree, admission=self._admission, name=name)

    def leftovers(self) -> Sequence[CgroupPath]:
        """The cgroups that some memqos made there and did not remove."""
        return find_leftovers(self._tree, deadline=Deadline.after(LOOKING_SECONDS))
