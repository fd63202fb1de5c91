"""The time tree of one rank: each nanosecond of its steps is in exactly one leaf. See docs/tree.md."""
