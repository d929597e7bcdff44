"""What the fixture `qos_evidence` gives to a test: a folder for its evidence, and the end of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from memqos.claims import About, unproved
from memqos.engine.answer.finding import Finding, Verdict, worst
from memqos.errors import NonconformanceError
from memqos.laboratory.evidence import Folder
from memqos.plugin.keys import Notes
from memqos.report.summary import finding_line
from memqos.report.words import slug

__all__ = ["Evidence"]


class Evidence:
    """What the fixture `qos_evidence` gives to a test: places for evidence, and the end of the test."""

    def __init__(
        self, *, notes: Notes, folder: Folder, amend: Callable[[Finding], Finding], about: About | None
    ) -> None:
        self._notes = notes
        self._folder = folder
        self._amend = amend
        self._about = about

    @property
    def folder(self) -> Folder:
        """This test's own folder in the results."""
        self._notes.folder = self._folder.path
        return self._folder

    def attach(self, name: str, value: object) -> None:
        """Keep something beside the findings: text, bytes, or any value that can be said in JSON."""
        self.folder.write(slug(name), value)

    def settle(self, *findings: Finding | Iterable[Finding]) -> None:
        """Judge the test by these findings: the end of every test that proves a claim.

        Raises NonconformanceError if one deviates; if none does and one is not observable, the test is not
        observable, with the reason. Nor is it if none of them is set by what the claim is about.
        """
        flat = [
            self._amend(finding) for group in findings for finding in ([group] if isinstance(group, Finding) else group)
        ]
        self._notes.findings += flat
        for one in flat:
            for name, text in one.lost.documents.items() if one.lost is not None else ():
                self.attach(name, text)
        verdict = worst(flat)
        if verdict is Verdict.DEVIATES:
            deviating = [finding for finding in flat if finding.verdict is Verdict.DEVIATES]
            raise NonconformanceError(finding_line(deviating[0]), data={"findings": len(deviating)})
        if verdict is Verdict.NOT_OBSERVABLE:
            reasons = dict.fromkeys(f"{finding.subject}: {finding.why_not}" for finding in flat if finding.why_not)
            pytest.skip("; ".join(reasons) or "nothing was judged")
        if self._about is not None and (why := unproved(self._about, flat)):
            pytest.skip(why)
