"""What a run leaves behind: the JSON bundle, and what is rendered from it."""
