"""The pytest plugin: options, fixtures, markers, outcomes and results; the only package that imports pytest."""
