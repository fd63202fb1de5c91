"""What changed between two reports, and what of it may be chance."""
