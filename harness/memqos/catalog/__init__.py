"""What a person writes and memqos reads: topologies, profiles, pods, kubelet configurations."""
