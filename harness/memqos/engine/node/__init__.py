"""The node's rules: admission and placement of pods, the cgroups above pods, and settings that its kubelet refuses."""
