"""Checks of many hosts: the jobs on them, the speed of each node, and the network between them."""
