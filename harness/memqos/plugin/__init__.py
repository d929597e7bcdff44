"""The pytest plugin: options, fixtures, markers, outcomes and results; the only part that knows pytest."""
