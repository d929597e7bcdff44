"""Enactors carry out plans on a machine: the kubelet stand-in, a real kubelet, or an observer of existing pods."""
