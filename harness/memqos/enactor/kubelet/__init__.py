"""A real kubelet as enactor: it runs in the machine, against an API stand-in, with any CRI server."""
