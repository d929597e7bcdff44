"""One QEMU: its command line, its states, what it tells while it lives, and why it died."""
