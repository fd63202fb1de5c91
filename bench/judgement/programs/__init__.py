"""Training programs as people write them, most with one mistake, to test whether Hermes' first answer names it."""
