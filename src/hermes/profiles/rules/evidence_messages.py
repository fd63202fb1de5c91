"""Messages about evidence that several rules share: calls of a kind, steps before the capture, batches, and memory."""

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
FREE_IN_CALLS = sentence("evidence.free_in_calls")
IN_WAITS = sentence("evidence.in_waits")
HANDING_OVER = sentence("evidence.handing_over")
LEFT_ON_DEVICE = sentence("evidence.left_on_device")


@message("evidence.time_in")
def time_in(*, name: Name) -> None:
    """The time in calls of one name."""


@message("evidence.most_reserved")
def most_reserved(*, component: Name) -> None:
    """The most memory that an allocator reserved."""


@message("evidence.before")
def before(*, n: Count) -> None:
    """A mean over steps before the capture."""


@message("evidence.cores_free")
def cores_free(*, n: Count) -> None:
    """The number of idle host cores."""


@message("evidence.operator")
def of_operator(*, operator: Name, shapes: Name | None = None) -> None:
    """One operator, with the shapes of its inputs."""
