"""Detects slower steps and stragglers of running jobs from their step logs."""
