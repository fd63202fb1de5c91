"""What a timeline shows: lanes of slices, and curves."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

ANALYSIS = "analysis"
"""The folder of what Hermes says itself."""
FINDINGS = "findings"
"""The track of findings in it: their slices begin with the code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Slices of one track of one rank, below the tracks named in `folder`.

    `rows` has `start_ns`, `dur_ns`, `name`, and may have `detail` (a text shown with the slice), `leaves` and `arrives`
    (numbers of arrows; an arrow is drawn between slices that bear one number). Times are on one clock for all ranks.
    """

    rank: int
    folder: str
    name: str
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Samples of one counter of one rank: `ts_ns` and `value`; `unit` is shown with them."""

    rank: int
    folder: str
    name: str
    unit: str
    rows: pl.DataFrame
