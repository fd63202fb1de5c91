"""Reports defects of Hermes: an unexpected exception is reported as a defect, never as an answer."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.base.message import Name, Text, message, sentence
from hermes.base.sanitize_text import harmless_line
from hermes.base.say import say

VARIABLE = "HERMES_TRACEBACK"
"""The environment variable that makes Hermes print the traceback of a defect too."""
_ROOT = Path(__file__).parents[1]
_LONGEST = 300
_LOST = sentence("base.lost_answer")
_NO_MEMORY = sentence("base.no_memory")
_FREE_MEMORY = sentence("base.free_memory")


@message("base.failed")
def _failed(*, error: Name) -> None:
    """The message that an exception is a defect of Hermes."""


@message("base.report_defect")
def _report(*, variable: Name) -> None:
    """The hint that says what to do about a defect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """An unexpected exception: its type and text, the innermost line of Hermes, and the traceback."""

    error: str
    place: str
    trace: str

    @classmethod
    def of(cls, error: BaseException) -> Defect:
        """The defect that an exception shows; for an exception of a worker process, the defect in the worker."""
        if isinstance(error, WorkerFailedError):
            return error.defect
        lines = f"{type(error).__name__}: {error}".strip().splitlines()
        trace = "".join(traceback.format_exception(error))
        return cls(error=harmless_line(lines[0])[:_LONGEST], place=_place(error), trace=trace)

    @property
    def told(self) -> HermesError:
        """The defect as an error for `cli` to print."""
        return HermesError(_failed(error=self.error), where=self.place, lost=_LOST, hint=_report(variable=VARIABLE))


class WorkerFailedError(RuntimeError):
    """A defect that occurred in a worker process."""

    def __init__(self, what: Text, defect: Defect) -> None:
        super().__init__(f"{say(what)}; in its process:\n{defect.trace}")
        self.what = what
        self.defect = defect

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.defect)


def no_memory() -> HermesError:
    """The error that tells the user that memory ran out."""
    return HermesError(_NO_MEMORY, lost=_LOST, hint=_FREE_MEMORY)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if Path(one.filename).is_relative_to(_ROOT)]
    if not (ours or frames):
        return ""
    last = (ours or frames)[-1]
    path = Path(last.filename)
    shown = path.relative_to(_ROOT.parent) if ours else path.name
    return f"{shown}:{last.lineno}, {last.name}"
