"""The files of planned cgroups: what each shows, for those that something was ruled on and for those left alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from memqos.engine.cgroup.untouched import exists, node_defaults, untouched
from memqos.engine.kubelet import Kubelet
from memqos.engine.node.cgroups import reserved_cgroups
from memqos.engine.plan import Expected, Level
from memqos.engine.ruling import UNEXPLAINED, Ruling, Rulings, expected
from memqos.engine.translate.runtime_rules import values
from memqos.model.knob import ABSENT, Knob, KnobValue
from memqos.model.read_back import read_back

__all__ = ["CgroupFiles"]


class CgroupFiles:
    """The planned files of one node's cgroups, by level.

    manages: whether the Memory Manager is on, so that containers have cpuset.mems. reasons: whether every expectation
    says why; without reasons equal ones are made once and shared.
    """

    def __init__(self, kubelet: Kubelet, *, manages: bool, reasons: bool) -> None:
        self._kubelet = kubelet
        self._reasons = reasons
        files = kubelet.files
        sizes = [files.huge_pages[size] for size in kubelet.node.hugepage_sizes if size in files.huge_pages]
        self.everywhere = tuple(knob for knob in (*files.planned, *sizes) if exists(knob, kubelet))
        """The knobs of every cgroup."""
        of_containers = (*self.everywhere, Knob.CPUSET_MEMS) if manages else self.everywhere
        self._counts_pids = (kubelet.settings.pod_pids_limit or -1) > 0 or any(
            "pid" in amounts
            for amounts in (kubelet.capacity, *(one for _, one, _ in reserved_cgroups(kubelet).values()))
        )
        self._defaults = {} if kubelet.v2 else node_defaults(kubelet)
        self._unexplained: dict[Knob, dict[KnobValue, Expected]] = defaultdict(dict)
        self._texts: dict[tuple[str, str], Expected | None] = {}
        self._left_alone = {
            level: self._unwritten(level, of_containers if level is Level.CONTAINER else self.everywhere)
            for level in Level
        }

    def of(self, level: Level, rulings: Rulings) -> dict[Knob, Expected]:
        """Every planned knob of a cgroup, as it is ruled on or left alone."""
        knobs = self._left_alone[level].copy()
        if level is not Level.CONTAINER:
            knobs |= self._unwritten(level, self._known_of(level, rulings))
        for knob, ruling in ((knob, ruling) for knob, ruling in rulings.items() if knob in knobs):
            # Without reasons a file that is left alone on purpose is like the others that are.
            if self._reasons or ruling.unmodelled:
                knobs[knob] = self._expected(knob, ruling)
            elif ruling.written is not ABSENT:
                found = None if ruling.otherwise else self._unexplained[knob].get(ruling.written)
                knobs[knob] = self._expected(knob, ruling) if found is None else found
        return knobs

    def unexplained(self, files: Iterable[tuple[str, str]]) -> dict[Knob, Expected]:
        """Every planned knob of a container into whose files these texts are written, in a plan without reasons."""
        knobs = self._left_alone[Level.CONTAINER].copy()
        for file in files:
            if file not in self._texts:
                self._texts[file] = self._of_text(file)
            found = self._texts[file]
            if found is not None and found.knob in knobs:
                knobs[found.knob] = found
        return knobs

    def _of_text(self, file: tuple[str, str]) -> Expected | None:
        """What follows from a text; None for a file that plans are not about."""
        page = self._kubelet.node.page_size
        for knob, written in values([file]).items():
            return Expected(knob=knob, written=written, value=read_back(knob, written, page), reason=UNEXPLAINED)
        return None

    def _unwritten(self, level: Level, knobs: Iterable[Knob]) -> dict[Knob, Expected]:
        """What these files show at a level while nobody writes them."""
        return {knob: self._expected(knob, untouched(self._kubelet, knob, level)) for knob in knobs}

    def _known_of(self, level: Level, rulings: Rulings) -> Iterator[Knob]:
        """The knobs that a cgroup above the containers has only where something is known of them."""
        if Knob.CPUSET_CPUS in rulings:
            yield Knob.CPUSET_CPUS
        # The capacity of kubepods is a fact that may be missing; every other level is at "max" unless it is written.
        if self._counts_pids and (level is not Level.NODE or Knob.PIDS_MAX in rulings):
            yield Knob.PIDS_MAX

    def _expected(self, knob: Knob, ruling: Ruling) -> Expected:
        page = self._kubelet.node.page_size
        made = expected(knob, ruling, page_size=page, reasons=self._reasons, default=self._defaults.get(knob))
        if not self._reasons and not ruling.otherwise and not ruling.unmodelled:
            # Without its reason an expectation is the same wherever the same value is written.
            self._unexplained[knob][ruling.written] = made
        return made
