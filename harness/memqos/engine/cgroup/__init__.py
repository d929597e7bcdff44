"""Cgroups and their control files: paths, values, and the kernel's arithmetic of protection."""
