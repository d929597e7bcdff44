"""What happens once for all tests of a module that wait for it: which they are, and where their evidence goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from memqos.catalog.requests import RequestCase
from memqos.engine.answer.finding import Finding
from memqos.errors import UsageError
from memqos.laboratory.evidence import Folder
from memqos.node.requests.moment import Outcomes, Within
from memqos.plugin.collection.citing import claim_of
from memqos.plugin.keys import LANE, RESULTS
from memqos.plugin.machines.ahead import observable_tests
from memqos.report.words import slug

__all__ = ["Verb", "found_together"]

Verb = Callable[[Mapping[str, RequestCase], Within], Outcomes]
"""One of `memqos.node.requests.living.Life` that takes several cases."""


def found_together(
    module: pytest.Module, verb: Verb, cases: Mapping[str, RequestCase]
) -> Callable[[str], Sequence[Finding]]:
    """Gives the findings of a case by the name of its claim; what the verb does happens when the first is asked for.

    It happens with the cases of all tests of the module that were chosen and come from then on, but for those whose
    claim needs what the node has not got. Each keeps what it is judged by in the folder of its own test, and the names
    of those with which it waited in together.json. MachineryError if that one case ended in it.
    """
    config = module.config
    station = config.stash[LANE].station
    tests = {claim_of(item).rpartition("/")[2]: item for item in observable_tests(module, station)}
    outcomes: dict[str, Outcomes] = {}

    def findings(name: str) -> Sequence[Finding]:
        if name not in outcomes:
            order = [one for one in tests if one in cases]
            if name not in order:
                raise UsageError(f"no test of {module.path.name} cites a claim '{name}' that waits with others.")
            chosen = order[order.index(name) :]
            folders = {one: Folder(config.stash[RESULTS] / "tests" / slug(tests[one].nodeid)) for one in chosen}
            for folder in folders.values():
                # It may have been begun on a machine that was given up then.
                folder.clear()
                folder.write("together.json", {"waited": chosen})
            found = verb({one: cases[one] for one in chosen}, lambda one: station.log.apart(folders[one]))
            outcomes.update(dict.fromkeys(found, found))
        return outcomes[name][name].result()

    return findings
