"""The description of a program in the zoo: its file, its cause as ids of the case base, its fix, its signs."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.judgement.truths import rows
from hermes.model.finding import Layer

Kind = Literal["cause", "tie", "decoy", "control"]
Half = Literal["tuned", "held-out"]

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The description of one program in the zoo.

    `file` and `program` say where it is. `causes` are ids of the case base: of a `tie` there are two, and both are
    expected; a `control` or `decoy` has none, unless what looks suspicious hides what costs. `also` are ids that name
    the same thing well enough. `never` must not be named first. `monitor` holds the names by which the monitor may call
    the cause without a profile; empty where its counters cannot tell. `only_monitor`: no profile can tell, and the
    monitor is what is judged. `trend`: the cause costs memory and not time. `period` is a number of steps after which
    the program repeats itself. `blind`: the writer had read no rule of Hermes.
    """

    name: str
    file: str
    program: str
    layer: Layer
    kind: Kind = "cause"
    causes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    monitor: tuple[str, ...] = ()
    only_monitor: bool = False
    trend: bool = False
    cure: str = ""
    ranks: int = 1
    period: int = 1
    profiled: int = 5
    public: str = ""
    blind: bool = False

    @property
    def half(self) -> Half:
        """The half of the zoo that the program belongs to, by the checksum of its name."""
        return "tuned" if zlib.crc32(self.name.encode()) % 2 == 0 else "held-out"

    @property
    def path(self) -> Path:
        """The file of the program."""
        return PROGRAMS / f"{self.file}.py"

    @property
    def has_cure(self) -> bool:
        """Whether there is a variant without the cause."""
        return bool(self.cure)


ENTRIES: tuple[Entry, ...] = rows("zoo", Entry)
"""Which half an entry belongs to is settled by its name alone: rules may be mended with the `tuned` half in view."""
