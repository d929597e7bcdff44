"""What a person sees of a run while it goes on: rows on a terminal, lines in a log, groups and notes in CI."""
