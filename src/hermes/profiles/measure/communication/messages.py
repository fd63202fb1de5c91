"""Messages on parts of communication that could not be measured, and why."""

from __future__ import annotations

from hermes.base.message import Name, message, sentence

NO_FIXED_COST = sentence("comm.no_fixed_cost")


@message("comm.last_arrival_unknown")
def last_arrival_unknown(*, unknown: Name, of: Name) -> None:
    """Message: operations are not split into wait and transfer, because their last arrival is unknown."""


@message("comm.members_inferred")
def members_inferred(*, groups: Name, ranks: Name) -> None:
    """Message: the members of groups were inferred from the ranks that took part."""


@message("comm.paired_anew")
def paired_anew(*, operations: Name, ranks: Name) -> None:
    """Message: operations of recorded groups were paired between ranks by what they are and when they end."""


@message("comm.rows_unmatched")
def rows_unmatched(*, operations: Name) -> None:
    """Message: rows of the same operation on several ranks contradict each other."""


@message("comm.groups_found")
def groups_found(*, of: Name, found: Name, ranks: Name) -> None:
    """Message: the members of operations without a recorded group were found."""


@message("comm.ungrouped")
def ungrouped(*, operations: Name) -> None:
    """Message: the members of operations without a recorded group were not found."""
