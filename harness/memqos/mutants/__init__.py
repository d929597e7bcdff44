"""Mutants: systems made wrong on purpose, to check that a claim notices each and names the right file."""
