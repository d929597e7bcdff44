"""What runs inside a machine: what it says of itself, and what the user brings into it."""
