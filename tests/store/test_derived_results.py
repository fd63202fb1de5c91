"""What was worked out of tables comes back from the cache as it was, and never for other content or other code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hermes.model.path_measures import PathPart
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.compute.kernel_sums import RankCompute
from hermes.store import derived_results
from hermes.store.derived_results import FOLDER, DerivedResults
from hermes.store.serialize_rows import dumps, loads

SPLIT = StepSplit(
    rank=1, step=None, window_kind="host", start_ns=-(1 << 60), window_ns=5, compute_ns=None, comm_ns=0,
    exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=5, preparing_ns=None, host_ns=5,
)  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        SPLIT,
        (SPLIT, (PathPart(rank=0, component="wait", reason='\udcff \u2028 "', ns=1),), ()),
        {"a": 0.1, None: (1e300, -0.0, True)},
        frozenset({1, 2}),
        Path("/some/where"),
    ],
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    assert loads(dumps(value)) == value


def test_a_frame_comes_back_with_its_types() -> None:
    rows = pl.DataFrame({"a": [1, None], "b": ["x", None], "c": [0.1, 2.0]}, schema_overrides={"a": pl.UInt32})
    assert loads(dumps(rows)).equals(rows)
    assert loads(dumps(rows)).schema == rows.schema


@pytest.mark.parametrize("value", [object(), [1], pl.Series([1]), {"a": {1}}])
def test_what_would_not_come_back_the_same_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b'{"x":1}', b'{"c":"os:stat_result","v":[]}',
        b'{"c":"hermes.model.step_measures:StepSplit","v":[1]}',
        b'{"c":"hermes.base.errors:HermesError","v":["x"]}', b'{"f":"AAAA"}',
    ],
)  # fmt: skip
def test_bytes_of_anything_else_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"no rows|Expecting|zip"):
        loads(raw)


def counted(value: object) -> tuple[Callable[[], object], list[int]]:
    calls: list[int] = []

    def make() -> object:
        calls.append(1)
        return value

    return make, calls


def test_a_result_is_made_once_for_the_same_content_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, calls = counted(SPLIT)
    store = DerivedResults(tmp_path)
    assert [store.or_make(make, "rank", "key"), store.or_make(make, "rank", "key")] == [SPLIT, SPLIT]
    assert len(calls) == 1
    store.or_make(make, "rank", "other")
    assert len(calls) == 2
    monkeypatch.setattr(derived_results, "code", lambda: "another line")
    store.or_make(make, "rank", "key")
    assert len(calls) == 3


def test_a_result_that_was_damaged_is_made_again(tmp_path: Path) -> None:
    make, calls = counted(SPLIT)
    store = DerivedResults(tmp_path)
    store.or_make(make, "key")
    (path,) = (tmp_path / FOLDER).glob("*/*.json")
    path.write_bytes(path.read_bytes()[:-5])
    assert store.or_make(make, "key") == SPLIT
    assert len(calls) == 2


def test_without_a_cache_nothing_is_kept() -> None:
    make, calls = counted(SPLIT)
    DerivedResults(None).or_make(make, "key")
    DerivedResults(None).or_make(make, "key")
    assert len(calls) == 2


def test_the_compute_of_a_rank_can_be_kept() -> None:
    frame = pl.DataFrame({"key": [1]}, schema={"key": pl.UInt64})
    one = RankCompute(
        rank=0, recorded=None, vendor="ascend", chip=None, cubes=None, clock=None, top_mhz=None, signatures=frame,
        steps=frame, has_pipes=False, has_units=False, has_launches=False,
    )  # fmt: skip
    assert loads(dumps(one)).signatures.equals(frame)
