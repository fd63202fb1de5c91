"""Carries out captures inside the training process: receives requests, records steps, and acknowledges results."""
