"""What a check of nodes says."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Share, message, sentence

NODES = sentence("fleet.table_nodes")
"""The title of the table of readings."""

NODE = sentence("fleet.column_node")
"""The title of a column."""

CHECK = sentence("fleet.column_check")
"""The title of a column."""

PART = sentence("fleet.column_part")
"""The title of a column."""

RATE = sentence("fleet.column_rate")
"""The title of a column."""

UNREADABLE = sentence("fleet.unreadable")
"""A file of the history that is none, or damaged."""

NO_TORCH = sentence("fleet.no_torch")
"""Devices were not measured."""

DO_PYTHON = sentence("fleet.do_python")
"""How devices are measured."""

DO_CHECK_FIRST = sentence("fleet.do_check_first")
"""What to do where there is no history."""

DO_DRAIN = sentence("fleet.do_drain")
"""What to do with a node that stands out."""


@message("fleet.cannot_write")
def cannot_write(*, why: Name) -> None:
    """The history, or the disk to measure, cannot be written."""


@message("fleet.no_history")
def no_history(*, nodes: Names | None = None) -> None:
    """There are no readings: none at all, or none of the node that was asked for."""


@message("fleet.stands_out")
def stands_out(*, nodes: Names, n: Count) -> None:
    """The answer where nodes stand out; `n` is how many were compared."""


@message("fleet.none_stands_out")
def none_stands_out(*, n: Count) -> None:
    """The answer where no node stands out of so many."""


@message("fleet.too_few")
def too_few(*, least: Count) -> None:
    """The answer where there is nothing to compare with."""


@message("fleet.slow")
def slow(*, node: Name, what: Message, rate: Name, usual: Name, missing: Share, against: Message,
         part: Name | None = None, since: Name | None = None) -> None:  # fmt: skip
    """A node that is slower than what it is held against; `since` is when it faded."""
