"""The machines of a run: lent, prepared, kept for a look, and given up."""
