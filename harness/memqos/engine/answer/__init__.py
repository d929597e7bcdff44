"""What a plan answers: verdicts and findings on a reading, differences, and the texts that tell them."""
