"""What a person can set for a run: the table of settings, and their values with their origins."""
