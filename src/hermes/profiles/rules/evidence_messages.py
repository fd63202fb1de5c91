"""What several rules count: calls of a kind, steps before the capture, and batches."""

from __future__ import annotations

from hermes.base.message import Count, Name, message, sentence

CALLS = sentence("evidence.calls")
LONGEST_CALL = sentence("evidence.longest_call")
STEPS_HIT = sentence("evidence.steps_hit")
MEDIAN_FETCH = sentence("evidence.median_fetch")
LONGEST_FETCH = sentence("evidence.longest_fetch")
LONG_FETCHES = sentence("evidence.long_fetches")
DEMAND = sentence("evidence.demand")
SUPPLY = sentence("evidence.supply")


@message("evidence.time_in")
def time_in(*, name: Name) -> None:
    """What calls of one name take."""


@message("evidence.before")
def before(*, n: Count) -> None:
    """A mean of steps before the capture."""


@message("evidence.cores_free")
def cores_free(*, n: Count) -> None:
    """Cores that nothing used."""
