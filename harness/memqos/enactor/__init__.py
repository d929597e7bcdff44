"""What makes a plan true on a place: memqos in the kubelet's place, or nobody, where somebody else did already."""
