"""Kubernetes releases: their changes, the feature gates, and API defaulting of pods."""
