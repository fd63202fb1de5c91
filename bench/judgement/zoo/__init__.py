"""The bottleneck zoo: real training programs with a planted cause and its fix, and tests of Hermes' answers on them."""
