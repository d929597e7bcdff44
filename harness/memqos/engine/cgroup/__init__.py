"""Cgroups and their interface files: paths, values, and the kernel's arithmetic of protection."""
