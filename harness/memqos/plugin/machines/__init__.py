"""The machines of a run: lent, prepared, kept for inspection, and given up."""
