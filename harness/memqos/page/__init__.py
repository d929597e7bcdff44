"""The HTML report: one file that needs nothing else, made from results."""
