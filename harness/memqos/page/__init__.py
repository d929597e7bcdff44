"""The report that people look at: one HTML file that needs nothing else, made of results that were read."""
