"""From paths to a report."""
