"""The port "a machine that can be reached" and its adapters."""
