"""The cgroup file systems: their text formats, and trees of them read and written through a target."""
