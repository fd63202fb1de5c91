"""Who is badly connected: each host speaks to a few others, and bad pairs are laid over each other."""
