"""Pods admitted to a node: their state, what lost a value of theirs, and what changes them."""
