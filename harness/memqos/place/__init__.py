"""Places: the port for a machine with runtimes, opened for a while, and its adapters."""
