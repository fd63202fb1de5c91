"""What-if replay: predicts the gain of a change by replaying a step."""
