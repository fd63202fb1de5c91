"""Rules about the environment: settings, profiler overhead, anomaly checks and first calls."""
