"""Observation over time: one reading, a series with a deadline, until a named condition."""
