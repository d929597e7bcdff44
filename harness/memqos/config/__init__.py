"""What the user can set for a run: the table of settings, and their values with their origins."""
