"""The cgroup v2 file system: its text formats, and trees of it read and written through a target."""
