"""A job that runs: started, watched, captured."""
