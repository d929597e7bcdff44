"""The port "something that makes containers" and its adapters."""
