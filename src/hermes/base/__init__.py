"""Units, intervals and errors: what every room may use and that knows nothing of profiles."""
