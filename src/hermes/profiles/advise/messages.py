"""Messages about the next capture to record: which open question the capture would answer."""

from __future__ import annotations

from hermes.base.message import Count, Ranks, Share, message, sentence

NO_STACKS = sentence("capture.no_stacks")
NO_CALLS = sentence("capture.no_calls")
NO_SHAPES = sentence("capture.no_shapes")


@message("capture.start_up")
def start_up(*, share: Share) -> None:
    """Most of the capture is the start of the job."""


@message("capture.waited_for")
def waited_for(*, n: Count, ranks: Ranks) -> None:
    """Ranks that others wait for were not recorded."""


@message("capture.unseen")
def unseen(*, missing: Count, every: Count) -> None:
    """Ranks were not recorded, and communication costs time."""


@message("capture.unrecorded")
def unrecorded(*, share: Share) -> None:
    """The host recorded nothing in a part of the time."""
