"""Rules about parallelism: waits in a pipeline, and uneven load of ranks."""
