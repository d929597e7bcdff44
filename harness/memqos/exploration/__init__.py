"""Random pods, configurations and requests: drawn by hypothesis, judged, and shrunk where they deviate."""
