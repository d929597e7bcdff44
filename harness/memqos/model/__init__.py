"""Pure values: requests (pods, nodes), kernel state (knobs, paths), and observations (readings)."""
