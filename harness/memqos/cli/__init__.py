"""The command line, one module per verb; no other package imports it."""
