"""The command line, a page per verb; nothing imports it."""
