"""Rules about jobs that compute on the processor alone."""
