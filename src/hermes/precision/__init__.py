"""Two runs that should compute the same: whether they are set up alike, and where they first part."""
