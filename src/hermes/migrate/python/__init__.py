"""Python source: names by scope, types by what flows where, and what of it matters on an NPU."""
