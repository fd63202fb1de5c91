"""Rules that no public capture shows right yet: they run only with `hermes analyze --lab`."""
