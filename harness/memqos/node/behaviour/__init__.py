"""What containers do under pressure: watched from inside their machine, and judged by the kernel's own models."""
