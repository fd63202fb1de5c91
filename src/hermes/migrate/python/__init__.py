"""Analyses Python source for migration: names by scope, types by data flow, and places that matter on an NPU."""
