"""Rules about the user's code: functions and lines that take the step's time."""
