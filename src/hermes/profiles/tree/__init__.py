"""The tree of a job: the leaves of its ranks as one, in which nobody waits for a rank but all for what it did."""
