"""What the API server makes of a new pod: its admission plugins, and what they refuse."""
