"""This host: its programs, memory and processors, and the owners of processes and folders."""
