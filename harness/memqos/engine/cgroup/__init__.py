"""Cgroups and their control files: where they are, what they show, and what the kernel makes of protection."""
