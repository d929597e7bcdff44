"""What the API server makes of a new pod: its admission plugins, one module each, and what they refuse."""
