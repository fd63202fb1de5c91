"""Is a node as fast as the others, as its chip, and as it was? Measured between jobs, and kept."""
