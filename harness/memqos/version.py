"""The version, on its own so that the build and `--version` read the same line without importing anything."""

__version__ = "0.2.0"
