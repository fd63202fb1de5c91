"""The headline about a job that Hermes itself watched and captured names the planted leaf and its function."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from bench.live.entries import ENTRIES, Entry
from bench.live.watched import ask

pytestmark = [pytest.mark.live, pytest.mark.smoke]
_SMOKE = [entry for entry in ENTRIES if entry.smoke]


@pytest.mark.parametrize("entry", _SMOKE, ids=[entry.name for entry in _SMOKE])
def test_the_headline_names_what_was_planted_and_where(entry: Entry, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install --group torch")
    answer = ask(entry, tmp_path / entry.name)
    assert answer.leaf_is_right(entry), answer.said
    assert answer.line_is_right(entry), answer.said
