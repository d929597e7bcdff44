"""The machine of a node: its resources, what pods find on it, and what tests change about it."""
