"""The command line, a page a verb; nothing imports it."""
