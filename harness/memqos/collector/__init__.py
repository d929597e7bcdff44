"""The program that reads a node into a recording: one file for the standard library of Python 3.6."""
