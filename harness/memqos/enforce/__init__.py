"""Making a plan true on a node as the kubelet would: node, reserved, QoS and pod cgroups, and the way back."""
