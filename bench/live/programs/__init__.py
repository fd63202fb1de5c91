"""Training programs as people write them, each with one planted mistake or none; `--cured` runs the cure."""
