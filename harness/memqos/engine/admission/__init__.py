"""Admission of new pods in the API server: what its plugins change and refuse."""
