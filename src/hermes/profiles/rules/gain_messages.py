"""Messages that say how a gain was computed."""

from __future__ import annotations

from hermes.base.message import Count, Message, Names, Text, message, sentence

NEVER_EMPTY = sentence("gain.never_empty")


@message("gain.bound")
def at_most(*, when: Text) -> None:
    """Only the largest possible gain is known."""


@message("gain.frees")
def frees(*, method: Text) -> None:
    """The gain exceeds the cost: other work waits for what is lost."""


@message("gain.host")
def of_host(*, when: Text) -> None:
    """Nothing runs beside the host, so all of the time is the gain."""


@message("gain.replay")
def of_replay(*, changes: Names, more: Message | None = None, method: Text) -> None:
    """The steps were replayed with changes that stand for the cure."""


@message("gain.more_changes")
def more_changes(*, n: Count) -> None:
    """How many changes of a replay are not named."""


@message("gain.without_profiler")
def without_profiler(*, method: Text) -> None:
    """The profiler lengthened the captured time."""


@message("gain.beyond")
def beyond(*, codes: Names, method: Text) -> None:
    """Other findings explain a part of the gain."""


@message("gain.shared_cores")
def on_shared_cores(*, method: Text) -> None:
    """A processor's transfers need the cores that compute at the same time."""
