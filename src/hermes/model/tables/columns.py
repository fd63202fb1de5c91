"""Columns that many of the canonical tables share, such as rank, start and duration."""

from __future__ import annotations

from hermes.model.tables.schema import Column

RANK = Column("rank", "int", "Global rank of the process.")
STEP = Column("step", "int", "Step that the row belongs to.", null="the row belongs to no step of the capture")
START = Column("start_ns", "int", "Start.", "ns")
DUR = Column("dur_ns", "int", "Duration.", "ns")
