"""The model of a recorded step, for any recorder: its operators, their input and output tensors, and their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hermes.base.errors import Diagnostic

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


WHERE_THE_FILE_SAYS = -1
"""As the end of a place: the file holds one tensor and gives its own position, which is read with the elements."""


class ElementsPlace(NamedTuple):
    """The file and bytes that hold the elements of a tensor. `sample` is the distance between the kept elements."""

    path: Path
    begin: int
    end: int
    sample: int = 1


class ValueView(NamedTuple):
    """A view: a value that shows elements of another value."""

    base: int
    strides: tuple[int, ...]
    offset: int


class RecordedValue(NamedTuple):
    """A tensor at one time. `by` is the index of the operator that made the tensor, in the step's list."""

    number: int
    dtype: str
    shape: tuple[int, ...]
    stats: tuple[float, ...] | None = None
    mark: str = ""
    data: ElementsPlace | None = None
    by: int | None = None
    view: ValueView | None = None
    name: str = ""
    role: str = ""
    strides: tuple[int, ...] = ()
    offset: int = 0

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of elements of the tensor."""
        total = 1
        for one in self.shape:
            total *= one
        return total


class Frame(NamedTuple):
    """A line of the user's code on a recorded stack."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class OperatorCall(NamedTuple):
    """A recorded call of an operator: its inputs, outputs, arguments and phase.

    `number` is its index in the step; `forward` is the index of the call whose gradient it computes.
    """

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
        """File and line of the innermost frame; empty if none is known."""
        return str(self.frames[0]) if self.frames else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """One step of one rank.

    `complete` is false if the process ended inside the step; `damaged` counts unreadable lines.

    `whole` says whether every operator was recorded: then a value that no operator made came from outside.
    """

    rank: int
    step: int
    rng: str
    ops: tuple[OperatorCall, ...]
    values: tuple[RecordedValue, ...]
    complete: bool = True
    dropped: int = 0
    damaged: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording. `kind` is hermes or msprobe; `what` is statistics, fingerprint or tensors."""

    path: Path
    kind: str
    framework: str
    what: str
    level: str
    steps: tuple[tuple[int, int], ...]
    """The rank and step of each loadable step, in order."""
    loader: object = field(repr=False)
    diagnostics: list[Diagnostic] = field(default_factory=list)


STATS = 7
"""The numbers of a statistics row before its signed sums: min, max, mean, norm, nan, inf, zeros."""
