"""The folder that a user hands over, as files, and the cache that Hermes keeps of it elsewhere."""
