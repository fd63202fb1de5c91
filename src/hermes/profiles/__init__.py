"""The analysis of profiles: reading, clock alignment, measures, rules, replay, advice and comparison."""
