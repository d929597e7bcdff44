"""How every test runs: properties with the same examples each time, and signals as in a terminal.

So a red test comes from the change, not from chance or a busy host. Chance has its own run, `tox -e explore`: with
MEMQOS_TEST_EXAMPLES=N a property is tried with N new ones, or with as many new ones as it sets itself.

Whoever runs the tests may ignore signals, as nohup does and a shell for what is in its background; programs would
inherit that, and go on through the interrupts that tests send them.
"""

import os
import signal

from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = os.environ.get("MEMQOS_TEST_EXAMPLES")

settings.register_profile("same", parent=UNTIMED, derandomize=True)
settings.register_profile("explore", parent=UNTIMED, derandomize=False, max_examples=int(EXAMPLES or 100))
settings.load_profile("explore" if EXAMPLES else "same")

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
