"""Programs that stand in a machine in place of its own, each a single file of Python's standard library."""
