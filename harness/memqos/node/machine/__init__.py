"""What a node's machine has, what it holds for pods, and what it is put through."""
