"""Test and conformance harness for Kubernetes memory QoS on cgroup v2."""
