"""This host: its programs, memory and processors, and whose processes and folders are whose."""
