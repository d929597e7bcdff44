"""What the user writes and memqos reads: topologies, profiles, pods, kubelet configurations."""
