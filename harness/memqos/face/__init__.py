"""The progress of a run as users see it: rows on a terminal, lines in a log, groups and annotations in CI."""
