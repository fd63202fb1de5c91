"""Raises errors for inputs that could be opened but hold no rows."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.errors import HermesError, InputError
from hermes.base.message import Text
from hermes.model.tables import TABLES
from hermes.profiles import messages
from hermes.profiles.read.discover import FoundCapture
from hermes.profiles.read.table_sink import Sink


def refuse_empty(one: FoundCapture, sink: Sink) -> None:
    """Raise `InputError` for a capture whose files could be opened but hold no row."""
    if not any(sink.rows(name) for name in TABLES if name not in ("rank", "setting", "group", "stack")):
        said = list(dict.fromkeys(note.message for note in sink.notes if note.level == "degraded"))
        raise InputError(
            messages.nothing_in_capture(said=_together(said) if said else None),
            where=", ".join(map(str, one.source.files[:4])),
            lost=messages.LOST_THIS_CAPTURE,
            hint=messages.DO_KILLED_PROFILER,
        )


def nothing_left(failed: Sequence[HermesError]) -> InputError:
    """The error of an input without any readable capture: the first capture's error, and how many others failed."""
    first = failed[0]
    what = messages.more_like_it(what=first.what, others=str(len(failed) - 1)) if len(failed) > 1 else first.what
    return InputError(what, where=first.where, lost=first.lost, hint=first.hint)


def _together(many: Sequence[Text]) -> Text:
    if len(many) == 1:
        return many[0]
    half = len(many) // 2
    return messages.both(first=_together(many[:half]), then=_together(many[half:]))
