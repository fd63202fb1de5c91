"""What is compared of a run: its ranks, steps, names, findings and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.base.message import Text
from hermes.model.fault import Fault
from hermes.model.measures import StepSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One finding of a run, as far as it is compared; `cost_ns` per step."""

    code: str
    fault: Fault | None
    message: Text
    blames: tuple[str, ...]
    cost_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is compared of one run.

    `ranks` are all that were read, also one without a step. `names` holds tables with `kind`, `name`, `step`, `ns` and
    `calls`, added up over the ranks; `settings` the value of each (source, name), one text for all ranks. `lacks` says
    what its files lack.
    """

    title: str
    ranks: tuple[int, ...]
    splits: tuple[StepSplit, ...]
    names: Mapping[str, pl.DataFrame]
    findings: tuple[Found, ...]
    settings: Mapping[tuple[str, str], str]
    lacks: tuple[Text, ...] = ()

    @property
    def steps_by_rank(self) -> Mapping[int, int]:
        """How many steps of each rank are compared."""
        return Counter(split.rank for split in self.marked)

    @property
    def marked(self) -> Sequence[StepSplit]:
        """Where steps are marked, a rank without marks cannot be laid beside the others."""
        return [split for split in self.splits if split.step is not None] or self.splits
