"""How tests run memload on this host."""

LIMIT = 64 << 20
LIMITED = ["sh", "-c", f'ulimit -v {LIMIT >> 10} && exec "$@"', "sh"]
"""Runs the following words with so little address space that a mistake cannot use up the host's memory."""
