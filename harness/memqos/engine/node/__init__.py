"""The node's own rules: what pods may have of it, where they go, its cgroups above pods, what its kubelet refuses."""
