"""Enforces a plan on a node as the kubelet would: node, reserved, QoS and pod cgroups, and undoes it."""
