"""What a recorded step is, whoever recorded it: operators, the values that they took and gave, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hermes.base.errors import Diagnostic

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


WHERE_THE_FILE_SAYS = -1
"""The end of a place whose file holds one tensor and says itself where: it is looked at when the elements are."""


class Place(NamedTuple):
    """Where the elements of a tensor lie: bytes of a file. `sample` is the distance of the elements that were kept."""

    path: Path
    begin: int
    end: int
    sample: int = 1


class View(NamedTuple):
    """A value that shows elements of another."""

    base: int
    strides: tuple[int, ...]
    offset: int


class Value(NamedTuple):
    """A tensor as it was at one time. `by` is the place of the operator that made it in the step's list."""

    number: int
    dtype: str
    shape: tuple[int, ...]
    stats: tuple[float, ...] | None = None
    mark: str = ""
    data: Place | None = None
    by: int | None = None
    view: View | None = None
    name: str = ""
    role: str = ""
    strides: tuple[int, ...] = ()
    offset: int = 0

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many elements it has."""
        total = 1
        for one in self.shape:
            total *= one
        return total


class Frame(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Op(NamedTuple):
    """One call. `number` is its place in the step's list; `forward` that of the call whose gradient it computes."""

    name: str
    number: int
    phase: str
    module: str
    frames: tuple[Frame, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    args: Json
    forward: int | None = None
    random: str | None = None
    parameter: str = ""

    @property
    def line(self) -> str:
        """File and line of the innermost frame; empty where none is known."""
        return str(self.frames[0]) if self.frames else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of one rank. `complete` is false where the process ended inside it; `damaged` counts unreadable lines.

    `whole` is whether every operator was recorded: then a value that none of them made came from outside.
    """

    rank: int
    step: int
    rng: str
    ops: tuple[Op, ...]
    values: tuple[Value, ...]
    complete: bool = True
    dropped: int = 0
    damaged: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recording. `kind` is hermes or msprobe; `what` statistics, fingerprint or tensors."""

    path: Path
    kind: str
    framework: str
    what: str
    level: str
    steps: tuple[tuple[int, int], ...]
    """Rank and step of what can be loaded, in order."""
    loader: object = field(repr=False)
    diagnostics: list[Diagnostic] = field(default_factory=list)


STATS = 7
"""Numbers of a row before its signed sums: min, max, mean, norm, nan, inf, zeros."""
