"""Replays a step with something changed: what a cure would give, before anybody applies it."""
