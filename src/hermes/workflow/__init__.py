"""Use cases: the only room that knows the whole road from a folder to a report."""
