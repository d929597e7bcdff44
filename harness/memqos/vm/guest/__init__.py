"""What runs inside a machine: what it says of itself, and what a person brings into it."""
