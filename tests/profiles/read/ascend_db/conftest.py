"""Paths and fixtures for the tests of Ascend databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.skips import profiles

from hermes.profiles.read.ascend.db import read_database
from hermes.profiles.read.table_sink import Sink
from hermes_testing.draft_db import Draft


@pytest.fixture
def draft() -> Draft:
    return Draft()


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path / "tables", 0)


@pytest.fixture
def read(tmp_path: Path, sink: Sink) -> Callable[..., Sink]:
    """Reads a draft as rank 0 and returns the sink with its tables."""

    def reading(draft: Draft, *, rank: int = 0) -> Sink:
        path = draft.save(tmp_path / "w_ascend_pt" / f"ascend_pytorch_profiler_{rank}.db")
        sink.rank = rank
        read_database([path], rank, sink)
        return sink

    return reading


@pytest.fixture
def shared() -> Path:
    """The folder of real profiles, if it exists."""
    return profiles() / "ascend"
