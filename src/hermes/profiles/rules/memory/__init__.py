"""Rules about memory: exposed copies, allocation in steps, leaks, recomputation and out-of-memory."""
