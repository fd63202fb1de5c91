"""Whether two runs are set up alike."""
