"""The inside of a machine: its own view of its hardware, and what the user installs in it."""
