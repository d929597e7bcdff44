"""Machines that memqos boots: what they are made of, how they start, and how nothing of them is left."""
