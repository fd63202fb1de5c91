"""What one host tells of its jobs, of itself and of its devices, for Prometheus and OpenTelemetry."""
