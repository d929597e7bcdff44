"""What a run leaves: outcomes, evidence, and the bundle."""
