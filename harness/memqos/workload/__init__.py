"""Programs in containers that use memory in a stated way and say what happened."""
