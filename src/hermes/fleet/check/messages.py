"""Messages of a node check."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Share, message, sentence

NODES = sentence("fleet.table_nodes")
"""The title of the table of readings."""

NODE = sentence("fleet.column_node")
"""The title of the column with the node."""

CHECK = sentence("fleet.column_check")
"""The title of the column with the check."""

PART = sentence("fleet.column_part")
"""The title of the column with the device or partner."""

RATE = sentence("fleet.column_rate")
"""The title of the column with the rate."""

UNREADABLE = sentence("fleet.unreadable")
"""Warning: a file of the history is damaged, or another kind of file."""

NO_TORCH = sentence("fleet.no_torch")
"""Note: devices were not measured."""

DO_PYTHON = sentence("fleet.do_python")
"""Advice on how to measure devices: name a Python with torch."""

DO_CHECK_FIRST = sentence("fleet.do_check_first")
"""Advice where there is no history: check the nodes first."""

DO_DRAIN = sentence("fleet.do_drain")
"""Advice for a node that stands out."""


@message("fleet.cannot_write")
def cannot_write(*, why: Name) -> None:
    """Error: the folder of the history, or the disk to measure, is not writable."""


@message("fleet.no_history")
def no_history(*, nodes: Names | None = None) -> None:
    """Error: the history holds no readings at all, or none of the given node."""


@message("fleet.stands_out")
def stands_out(*, nodes: Names, n: Count) -> None:
    """The verdict if nodes stand out; `n` is the number of compared nodes."""


@message("fleet.none_stands_out")
def none_stands_out(*, n: Count) -> None:
    """The verdict if no node stands out of `n` nodes."""


@message("fleet.too_few")
def too_few(*, least: Count) -> None:
    """The verdict if there are too few readings to compare."""


@message("fleet.slow")
def slow(*, node: Name, what: Message, rate: Name, usual: Name, missing: Share, against: Message,
         part: Name | None = None, since: Name | None = None) -> None:  # fmt: skip
    """A finding: a node is slower than its reference `against`; `since` is when the node became slower."""
