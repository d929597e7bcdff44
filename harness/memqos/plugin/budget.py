"""--time-budget: after that time no further test is begun."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from memqos.clock import SYSTEM_CLOCK
from memqos.plugin.keys import SETTINGS_KEY

__all__ = ["Budget"]

BEGAN = "memqos_began"


class Budget:
    """Stops the session once its time is up; registered in every process.

    The clock is the host's, so that workers count from the moment in which their controller began.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._settings = config.stash[SETTINGS_KEY]
        workerinput: dict[str, float] = getattr(config, "workerinput", {})
        self._began = workerinput.get(BEGAN, SYSTEM_CLOCK.now())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker when the run began."""
        node.workerinput[BEGAN] = self._began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """A test that was begun is finished; pytest looks at what is said here before it begins the next."""
        result = yield
        budget = self._settings.time_budget
        if budget is not None and nextitem is not None and SYSTEM_CLOCK.now() - self._began >= budget.seconds:
            item.session.shouldstop = f"the time budget of {budget} is used up; what is left was not run"
        return result
