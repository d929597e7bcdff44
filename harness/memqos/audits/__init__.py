"""The judgement of nodes that memqos did not set up: a recorded tree against the plan of its kubelet."""
