"""Pods that were admitted to a node: what stands of each, what lost a value, and what changes it."""
