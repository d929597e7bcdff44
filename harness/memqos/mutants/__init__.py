"""Systems made wrong on purpose: which claims notice each of them, and whether they name the right file."""
