"""Audits of nodes that memqos did not set up: a recorded tree compared with the plan of its kubelet."""
