"""Programs that reproduce published figures; with `--after` they run with the published fix."""
