"""Checks whether two training runs have the same setup: settings, seeds, data, parameters and versions."""
