"""Who runs a function for each rank: one process, several, or a Ray cluster."""
