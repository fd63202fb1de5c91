"""Measures of the input pipeline: fetches, rates, queues and copies."""
