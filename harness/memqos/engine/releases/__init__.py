"""Kubernetes releases: what each changes, the feature gates, and what a release makes of a pod that it is given."""
