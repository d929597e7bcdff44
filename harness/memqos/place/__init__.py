"""The port "a machine with runtimes on it, lent for a while" and its adapters."""
