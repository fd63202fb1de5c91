"""The bottleneck zoo: real training programs with a planted cause and its cure, and what Hermes makes of them."""
