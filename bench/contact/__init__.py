"""Programs as people write them, each with one mistake: what Hermes says at first contact."""
