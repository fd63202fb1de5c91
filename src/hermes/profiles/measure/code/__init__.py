"""What of the step runs in which function of the user's."""
