"""The mistake in each training program, and the answers that count as right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.judgement.truths import rows

SCRIPTS = Path(__file__).with_name("scripts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program; `functions` and `causes` (faults) are right answers, both empty for one without a mistake.

    `place` is the line of the mistake, `mended` what to write instead (each text stands once in the program), and
    `gain` the share of a step that it saves, measured without Hermes. `blind`: the writer had read no rule of Hermes.
    """

    name: str
    mistake: str = ""
    functions: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    ranks: int = 1
    place: str = ""
    gain: float = 0.0
    mended: tuple[tuple[str, str], ...] = ()
    blind: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing was planted."""
        return not self.functions and not self.causes


PROGRAMS: tuple[Program, ...] = rows("programs", Program)
"""In the order in which they run."""
