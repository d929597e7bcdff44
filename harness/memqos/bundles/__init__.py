"""Reads, merges, compares and verifies results folders, without their runs."""
