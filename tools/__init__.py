"""Programs for those who work on memqos itself: nothing of this is in the wheel."""
