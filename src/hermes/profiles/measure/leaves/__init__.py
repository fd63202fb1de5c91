"""Where each nanosecond of the steps of one rank went: leaves that do not overlap, and add up. See docs/tree.md."""
