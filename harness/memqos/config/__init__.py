"""The user's settings for a run: their table, and their values with origins."""
