"""Answers from a plan: verdicts and findings on a reading, differences, and their texts and JSON."""
