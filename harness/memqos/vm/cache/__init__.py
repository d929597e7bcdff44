"""What memqos keeps between runs: images by content, the keys that open them, and the room of machines that run."""
