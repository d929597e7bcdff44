"""CRI v1 as memqos uses it: the protocol definition and the code generated from it; cri.proto explains how."""
