"""CRI v1 as memqos speaks it: the protocol definition and the code generated from it; cri.proto says how."""
