"""The pytest plugin; the only part that imports pytest."""
