"""Targets: the port for running commands and reading files on a machine, and its adapters."""
