"""`python -m memqos`, the same as the `memqos` command."""

from memqos.cli.main import main

main()
