"""Virtual machines that memqos boots: their images, start, and complete removal."""
