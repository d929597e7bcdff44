"""What a run leaves behind: results of tests, the bundle, and its renderings; every renderer is pure."""
