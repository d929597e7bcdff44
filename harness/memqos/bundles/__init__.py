"""What is made of a results folder alone, long after its run: reading it, and what it keeps of each case."""
