"""The results of a run, the bundle, and its renderings; every renderer is pure."""
