"""Watches running jobs from outside: step logs in, changes and stragglers out; no verdicts, those are of `diagnose`."""
