"""How a gain was reckoned."""

from __future__ import annotations

from hermes.base.message import Count, Message, Names, Text, message


@message("gain.bound")
def at_most(*, when: Text) -> None:
    """Only the most that can be won is known."""


@message("gain.host")
def of_host(*, when: Text) -> None:
    """Nothing runs beside the host: all of the time is won."""


@message("gain.replay")
def of_replay(*, changes: Names, more: Message | None = None, method: Text) -> None:
    """The steps were replayed with changes that stand for the cure."""


@message("gain.more_changes")
def more_changes(*, n: Count) -> None:
    """Changes of a replay that are not named."""


@message("gain.without_profiler")
def without_profiler(*, method: Text) -> None:
    """The profiler lengthened what was captured."""


@message("gain.beyond")
def beyond(*, codes: Names, method: Text) -> None:
    """Other findings explain a part of it."""


@message("gain.shared_cores")
def on_shared_cores(*, method: Text) -> None:
    """Transfers of a processor need the cores of the compute beside them."""
