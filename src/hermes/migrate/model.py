"""What scan and convert speak of: places in a source tree, edits of its files, and files before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Word
from hermes.model.leaf import Risk


class Sure(Word):
    """How a place was recognised: by resolved names and types, by habit of naming, or by its words alone."""

    PROVEN = "proven"
    LIKELY = "likely"
    GUESS = "guess"


class Effort(Word):
    """How long a person works on a place; `NONE` where `hermes migrate convert` does it or nothing has to be done."""

    NONE = "none"
    MINUTES = "minutes"
    HOURS = "hours"
    DAYS = "days"


class Style(Word):
    """How a tree is converted."""

    NATIVE = "native"
    SHIM = "shim"


SURE_ORDER = (Sure.GUESS, Sure.LIKELY, Sure.PROVEN)
EFFECT_ORDER = (Risk.STOPS, Risk.DIFFERS, Risk.SLOW, Risk.NOTE)
"""What happens on an NPU if nothing is done about a place, the most serious first."""
EFFORT_ORDER = (Effort.NONE, Effort.MINUTES, Effort.HOURS, Effort.DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the code shall run on: a torch version of the support tables and a family of chips."""

    torch: str = "2.13.0"
    chip: str = "A2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One thing in the source that matters on an NPU. `line` and `column` count from 1, in characters.

    `rule` is a key of `rules.RULES`; `later` is the rule of Hermes that speaks of the same thing once the program runs.
    """

    rule: str
    line: int
    column: int
    end_line: int
    end_column: int
    what: Message
    why: Message
    todo: Message
    effect: Risk
    sure: Sure
    effort: Effort
    converts: bool = False
    later: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replaces the characters `start` to `end` (exclusive) of a file by `text`."""

    start: int
    end: int
    text: str
    rule: str
    sure: Sure


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What was found in one file. `apis` counts each torch API that it uses, by its full name.

    `unknown` are libraries that it imports and no table knows.
    """

    path: str
    kind: str
    lines: int
    places: Sequence[Place] = ()
    apis: dict[str, int] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    skipped: Diagnostic | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file before and after; `left` are the places that convert did not settle.

    `relevant` says whether anything of torch, of CUDA or of a library of the tables was found in it.
    """

    path: str
    before: str
    after: str
    edits: Sequence[Edit] = ()
    left: Sequence[Place] = ()
    relevant: bool = True
    skipped: Diagnostic | None = None
    encoding: str = "utf-8"

    @property
    def changed(self) -> bool:
        """Whether the file is written anew."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeScan:
    """The answer of `hermes migrate scan`."""

    root: str
    target: Target
    files: Sequence[FileScan]
    skipped: Sequence[Diagnostic]

    @property
    def places(self) -> list[tuple[str, Place]]:
        """Each place with the path of its file, the most serious first within nothing but file order."""
        return [(file.path, place) for file in self.files for place in file.places]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """The answer of `hermes migrate convert`."""

    root: str
    target: Target
    style: Style
    files: Sequence[FileChange]
    skipped: Sequence[Diagnostic]

    @property
    def changed(self) -> list[FileChange]:
        """The files that are written anew."""
        return [file for file in self.files if file.changed]
