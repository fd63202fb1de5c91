"""Node checks: compare a node with other nodes, with the peak of its chip, and with its own past."""
