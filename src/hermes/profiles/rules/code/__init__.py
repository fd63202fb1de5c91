"""What of the user's own code takes the step."""
