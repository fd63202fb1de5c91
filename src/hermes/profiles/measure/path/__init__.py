"""The event graph of a step, and the critical path through it."""
