"""A pod's rules: its QoS class, its sums, its own cgroup, and what its containers ask of the runtime."""
