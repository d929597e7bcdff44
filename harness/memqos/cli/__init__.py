"""The command line, one page per verb; no other package imports it."""
