"""Runs on machines without pytest: a machine with one runtime and its node, evidence, and the bench for programs."""
