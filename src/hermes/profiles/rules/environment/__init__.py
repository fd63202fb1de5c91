"""Rules about environment."""
