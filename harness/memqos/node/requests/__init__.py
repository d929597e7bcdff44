"""Requests made of a runtime directly: what must hold after them, and what a container lives through."""
