"""`python -m memqos`, the same as the `memqos` command."""

import sys

try:
    from memqos.cli.main import main
except KeyboardInterrupt:
    # The command line's own way of taking an interrupt is not there yet.
    sys.stderr.write("\nmemqos: interrupted.\n")
    sys.exit(2)

main()
