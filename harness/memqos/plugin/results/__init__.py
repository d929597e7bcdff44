"""The results of a run: outcomes, evidence, and the bundle."""
