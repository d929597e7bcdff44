"""What makes a plan true on a place: memqos in the kubelet's place, or nothing, where the pods exist already."""
