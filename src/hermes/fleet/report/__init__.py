"""The weekly report of a fleet: time lost, its causes, and the ranks and hosts behind it."""
