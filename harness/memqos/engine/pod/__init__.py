"""A pod's rules: its QoS class, its sums, its cgroup, and the requests to the runtime."""
