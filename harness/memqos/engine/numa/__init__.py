"""The kubelet's Memory Manager and Topology Manager as pure functions over an immutable table of NUMA nodes.

Start at `admit`: `start` gives a node's first table, `admit` places a pod, `release` takes it away.
"""
