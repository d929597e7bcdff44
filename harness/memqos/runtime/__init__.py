"""The container runtime port and its adapters."""
