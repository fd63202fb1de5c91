"""Running training jobs: Hermes starts, watches and captures them."""
