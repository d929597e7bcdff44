"""How every property test runs: with the same examples each time, however long one takes.

So a red test comes from the change, not from chance or a busy host. Chance has its own run, `tox -e explore`: with
MEMQOS_TEST_EXAMPLES=N a property is tried with N new ones, or with as many new ones as it sets itself.
"""

import os

from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = os.environ.get("MEMQOS_TEST_EXAMPLES")

settings.register_profile("same", parent=UNTIMED, derandomize=True)
settings.register_profile("explore", parent=UNTIMED, derandomize=False, max_examples=int(EXAMPLES or 100))
settings.load_profile("explore" if EXAMPLES else "same")
