"""The network probe: each host calls a few others, and links shared by bad pairs are named."""
