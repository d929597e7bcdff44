"""Readers of users' files: topologies, profiles, pods, kubelet configurations."""
