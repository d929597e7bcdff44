"""What happens once for all tests of a module that wait for it: which they are, and where their evidence goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memqos.cases import Case
from memqos.catalog.requests import RequestCase
from memqos.engine.answer.finding import Finding
from memqos.errors import UsageError
from memqos.laboratory.evidence import Folder, Sink
from memqos.node.requests.moment import Outcomes
from memqos.node.requests.verbs import TogetherVerb
from memqos.plugin.keys import LANE, RESULTS
from memqos.plugin.machines.ahead import observable_tests
from memqos.report.words import slug

__all__ = ["found_together"]


def found_together(
    module: pytest.Module, name: str, verb: TogetherVerb, request: Callable[[str], RequestCase]
) -> Callable[[str], Sequence[Finding]]:
    """Gives the findings of a case by the name of its claim; what the verb does happens when the first is asked for.

    name: of the verb. request: gives a request by its name.
    It happens with the cases of that verb of all tests of the module that were chosen and come from then on, but for
    those whose claim needs what the node has not got. Each keeps what it is judged by in the folder of its own test,
    and the names of those with which it waited in together.json. MachineryError if that one case ended in it.
    """
    config = module.config
    station = config.stash[LANE].station
    tests = {case.name: item for item in observable_tests(module, station) if (case := _case(item, name)) is not None}
    outcomes: dict[str, Outcomes] = {}

    def findings(case: str) -> Sequence[Finding]:
        if case not in outcomes:
            order = [*tests]
            if case not in order:
                raise UsageError(f"no test of {module.path.name} has a case '{case}' that asks for {name}.")
            chosen = order[order.index(case) :]
            folders = {one: Folder(config.stash[RESULTS] / "tests" / slug(tests[one].nodeid)) for one in chosen}
            for folder in folders.values():
                # It may have been begun on a machine that was given up then.
                folder.clear()
                folder.write("together.json", {"waited": chosen})
            asked = {one: request(_request(tests[one])) for one in chosen}
            found = verb(asked, lambda one: station.log.to(Sink(folders[one])))
            outcomes.update(dict.fromkeys(found, found))
        return outcomes[case][case].result()

    return findings


def _case(item: pytest.Function, verb: str) -> Case | None:
    """The case that a test has as its parameter, None for one that asks for another verb and for other tests."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("qos_case") if callspec is not None else None
    return case if isinstance(case, Case) and case.asks.verb == verb else None


def _request(item: pytest.Function) -> str:
    """The name of the request of a test's case."""
    case = item.callspec.params["qos_case"]
    assert isinstance(case, Case)  # noqa: S101 - it is one of those of `_case`
    return case.asks.request
