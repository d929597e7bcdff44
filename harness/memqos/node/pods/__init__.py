"""Pods that were admitted to a node: what stands of each, who lost a value, and what changes it."""
