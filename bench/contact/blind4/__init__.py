"""Fourth blind round: programs and what is wrong in each."""
