"""Names of cases in lists with several systems. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from memqos.report.matrix import names_of_systems, system_of_result
from memqos.report.outcome import TestResult

__all__ = ["names_of"]


def names_of(results: Sequence[TestResult]) -> Mapping[int, str]:
    """The name of each result by its id(): the test's id, plus what distinguishes it from the others.

    That is its system, if there are several and its id does not name it, and its machine if that is not enough, as for
    contradictions in merged results.
    """
    systems = names_of_systems(results)
    told = {id(one): _untold(one, systems.get(system_of_result(one), "")) for one in results}
    machines = defaultdict[tuple[str, str], set[str]](set)
    for one in results:
        machines[one.id, told[id(one)]].add(one.machine)
    names = {}
    for one in results:
        system = told[id(one)]
        words = [system, one.machine if len(machines[one.id, system]) > 1 else ""]
        behind = ", ".join(filter(None, words))
        names[id(one)] = f"{one.id} ({behind})" if behind else one.id
    return names


def _untold(result: TestResult, system: str) -> str:
    """The system's name, unless the parameters in the test's id name it."""
    parameters = result.id.partition("[")[2].removesuffix("]")
    is_told = all(re.search(rf"(?:^|-){re.escape(word)}(?:-|$)", parameters) for word in system.split("/"))
    return "" if is_told else system
