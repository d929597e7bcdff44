"""Requests made of a runtime directly: what must hold after them, and events in a container's life."""
