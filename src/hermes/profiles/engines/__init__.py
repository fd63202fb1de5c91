"""Engines that run a function for each rank: in this process, in several processes, or on a Ray cluster."""
