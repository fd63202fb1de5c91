"""The data model of scan and convert: places in a source tree, edits of its files, and files before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Word
from hermes.model.leaf import Risk


class Sure(Word):
    """How a place was recognised: by resolved names and types, by usual naming, or by words alone."""

    PROVEN = "proven"
    LIKELY = "likely"
    GUESS = "guess"


class Effort(Word):
    """How long a person works on a place; `NONE` if `hermes migrate convert` settles it or no work is needed."""

    NONE = "none"
    MINUTES = "minutes"
    HOURS = "hours"
    DAYS = "days"


class Style(Word):
    """The style in which convert changes a tree."""

    NATIVE = "native"
    SHIM = "shim"


SURE_ORDER = (Sure.GUESS, Sure.LIKELY, Sure.PROVEN)
EFFECT_ORDER = (Risk.STOPS, Risk.DIFFERS, Risk.SLOW, Risk.NOTE)
"""The effects on an NPU of leaving a place unchanged, the most serious first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The platform that the code shall run on: a torch version of the support tables and a family of chips."""

    torch: str = "2.13.0"
    chip: str = "A2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A place in the source that matters on an NPU. `line` and `column` count from 1, in characters.

    `rule` is a key of `rules.RULES`; `later` is the rule of Hermes that measures the same fault once the program runs.
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
    """An edit that replaces the characters `start` to `end` (exclusive) of a file by `text`."""

    start: int
    end: int
    text: str
    rule: str
    sure: Sure


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """The scan of one file: its places, and how often it uses each torch API, by full name (`apis`).

    `unknown` are imported libraries that no table knows.
    """

    path: str
    kind: str
    lines: int
    places: Sequence[SourcePlace] = ()
    apis: dict[str, int] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    skipped: Diagnostic | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file before and after conversion; `left` are the places that convert did not settle.

    `relevant` says whether the file uses torch, CUDA or a library of the tables.
    """

    path: str
    before: str
    after: str
    edits: Sequence[Edit] = ()
    left: Sequence[SourcePlace] = ()
    relevant: bool = True
    skipped: Diagnostic | None = None
    encoding: str = "utf-8"

    @property
    def changed(self) -> bool:
        """Whether convert writes the file anew."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeScan:
    """The result of `hermes migrate scan` for a source tree."""

    root: str
    target: Target
    files: Sequence[FileScan]
    skipped: Sequence[Diagnostic]

    @property
    def places(self) -> list[tuple[str, SourcePlace]]:
        """Each place with the path of its file, in the order of the files."""
        return [(file.path, place) for file in self.files for place in file.places]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """The result of `hermes migrate convert` for a source tree."""

    root: str
    target: Target
    style: Style
    files: Sequence[FileChange]
    skipped: Sequence[Diagnostic]

    @property
    def changed(self) -> list[FileChange]:
        """The files that convert writes anew."""
        return [file for file in self.files if file.changed]
