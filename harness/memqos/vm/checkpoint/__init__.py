"""Booted machines kept in files: made once, verified, restored as clones."""
