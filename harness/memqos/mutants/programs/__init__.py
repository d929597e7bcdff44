"""Programs that replace a machine's own, each a single file that uses only Python's standard library."""
