"""The compared data of one run: its ranks, steps, names, findings and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.base.message import Text
from hermes.model.fault import Fault
from hermes.model.step_measures import StepSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFinding:
    """One finding of a run, with the fields that are compared; `cost_ns` is per step."""

    code: str
    fault: Fault | None
    message: Text
    blames: tuple[str, ...]
    cost_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """The compared data of one run.

    `ranks` are all ranks that were read, also ranks without a step. `names` holds tables with `kind`, `name`, `step`,
    `ns` and `calls`, added up over the ranks. `settings` holds the value of each (source, name), one text for all
    ranks. `lacks` says what the run's files lack.
    """

    title: str
    ranks: tuple[int, ...]
    splits: tuple[StepSplit, ...]
    names: Mapping[str, pl.DataFrame]
    findings: tuple[ComparedFinding, ...]
    settings: Mapping[tuple[str, str], str]
    lacks: tuple[Text, ...] = ()

    @property
    def steps_by_rank(self) -> Mapping[int, int]:
        """The number of compared steps of each rank."""
        return Counter(split.rank for split in self.marked)

    @property
    def marked(self) -> Sequence[StepSplit]:
        """The compared steps: only marked steps, if any rank has marks."""
        return [split for split in self.splits if split.step is not None] or self.splits
