"""Programs in containers that use memory in a stated way and report what happened."""
