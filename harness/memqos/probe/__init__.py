"""Observation over time: facts of a target, and changes of its cgroups as they happen."""
