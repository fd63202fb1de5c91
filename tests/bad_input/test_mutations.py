"""Random harm to one file of a profile: a sound report or a `HermesError`, whatever it is."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.each import sampled

from hermes.base.errors import HermesError
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.report.report_json import to_json
from hermes.store.cache import Cache
from hermes_testing.mutate import contradictions, mutate

# `fuzz/fuzz_reader.py` searches; this only guards what it found to hold, the same way each time.
_SETTINGS = settings(
    max_examples=12, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("form", sampled(["text", "db", "kineto", "merged", "rocpd", "iterations"], "kineto"))
@_SETTINGS
@given(seed=st.integers(0, 2**32))
def test_random_harm_ends_in_a_sound_report_or_a_message(form: str, seed: int, whole: dict[str, Path]) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as work:
        folder = Path(shutil.copytree(whole[form], Path(work) / "in"))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        path = chance.choices(files, [1 + path.stat().st_size // 4_000 for path in files])[0]
        path.write_bytes(mutate(path.name, path.read_bytes(), chance))
        try:
            report = analyze(load([folder], Cache(Path(work) / "cache")))
        except HermesError as error:
            # pytest.raises does not fit: most examples end in a report.
            if not error.where or not (error.lost or error.hint):
                raise AssertionError(f"a message that leaves one alone: {error}") from error
            return
        to_json(report).encode("utf-8")
        assert contradictions(report) == []
