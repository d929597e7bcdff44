"""The display of a run while it goes on."""
