"""Container behaviour under memory pressure: watched from inside the machine, judged by the kernel's own models."""
