"""The content of a timeline for trace viewers: lanes of slices and curves of counters."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

ANALYSIS = "analysis"
"""The name of the folder of tracks that Hermes adds to a timeline."""
FINDINGS = "findings"
"""The name of the track of findings in that folder: names of its slices begin with the rule's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The slices of one track of one rank, below the tracks named in `folder`.

    `rows` has `start_ns`, `dur_ns`, `name`, and may have `detail`, a text shown with the slice. `rows` may also have
    `leaves` and `arrives`, numbers of arrows: an arrow connects the slices with its number. Times are on one clock for
    all ranks.
    """

    rank: int
    folder: str
    name: str
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The samples of one counter of one rank: `ts_ns` and `value`; `unit` is shown with the values."""

    rank: int
    folder: str
    name: str
    unit: str
    rows: pl.DataFrame
