"""The one place that holds the version of Hermes."""

__version__ = "0.1.0"
