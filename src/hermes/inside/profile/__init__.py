"""Captures inside the training process: asked for, recorded, acknowledged."""
