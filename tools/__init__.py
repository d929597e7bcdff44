"""Programs for memqos's own development; none of them is in the wheel."""
