"""What an expert says of real profiles, and how far Hermes says the same."""
