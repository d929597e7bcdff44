"""What memqos keeps between runs: images by content, the keys that open them, and folders of running machines."""
