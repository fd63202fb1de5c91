"""The metrics exporter of one host: its jobs, the host itself and its devices, for Prometheus and OpenTelemetry."""
