"""Rules about the host: recompilation, waits, slow dispatch, garbage collection, cores and threads."""
