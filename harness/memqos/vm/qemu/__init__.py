"""One QEMU: its command line, its states, its monitor, and why it died."""
