"""Rules: measures in, findings out. The only room with verdicts."""
