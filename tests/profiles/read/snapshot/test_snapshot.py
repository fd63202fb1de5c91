"""Snapshots of the caching allocator: curve, blocks and failures out of a pickle that is never loaded."""

from __future__ import annotations

import gzip
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import InputError
from hermes.base.say import say
from hermes.model.memory_measures import Holder
from hermes.profiles.api import analyze, load
from hermes.profiles.measure.memory.failed_requests import FailedRequest
from hermes.profiles.read.snapshot.plain_pickle import NotPlainError, plain
from hermes.profiles.read.snapshot.reader import place_of
from hermes.store.cache import Cache

GB = 10**9
_MODEL = [{"filename": "/job/model.py", "line": 12, "name": "forward"},
          {"filename": "/usr/lib/python3/site-packages/torch/nn/modules/module.py", "line": 9, "name": "_call_impl"},
          {"filename": "/job/train.py", "line": 40, "name": "step"}]  # fmt: skip


def _event(action: str, at_us: int, address: int, size: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at_us, "frames": _MODEL, **more}


def snapshot(*, idle: int = 0, settings: str = "PYTORCH_CUDA_ALLOC_CONF") -> dict[str, Any]:
    """A device that held 3 GB before the history began, took 2, gave 1 back, and failed at 4."""
    segment = {"device": 0, "address": 0, "total_size": 4 * GB + idle, "allocated_size": 4 * GB, "active_size": 4 * GB,
               "stream": 0, "segment_type": "large", "blocks": []}  # fmt: skip
    trace = [
        _event("segment_alloc", 1_000, 0, 2 * GB),
        _event("alloc", 1_001, 10, GB),
        _event("alloc", 1_002, 20, GB),
        _event("free_requested", 1_003, 10, GB),
        _event("free_completed", 1_004, 10, GB),
        _event("oom", 1_005, 0, 4 * GB, device_free=GB // 2),
    ]
    return {"segments": [segment], "device_traces": [trace], "allocator_settings": {settings: ""},
            "external_annotations": []}  # fmt: skip


def _write(folder: Path, content: object, name: str = "rank3.pickle") -> Path:
    path = folder / name
    path.write_bytes(pickle.dumps(content, protocol=4))
    return path


def test_curve_and_blocks_follow_from_the_end_and_the_history(tmp_path: Path) -> None:
    loaded = load([_write(tmp_path, snapshot())], Cache(tmp_path / "cache"))
    (data,) = loaded.ranks
    assert data.rank == 3
    assert data.table("memory", "ts_ns", "allocated_bytes", "reserved_bytes").rows() == [
        (1_000_000, 3 * GB, 4 * GB), (1_001_000, 4 * GB, 4 * GB), (1_002_000, 5 * GB, 4 * GB),
        (1_003_000, 4 * GB, 4 * GB), (1_004_000, 4 * GB, 4 * GB), (1_005_000, 4 * GB, 4 * GB),
    ]  # fmt: skip
    assert data.table("allocation", "name", "bytes", "alloc_ns", "release_ns").rows() == [
        ("model.py:12 forward < train.py:40 step", GB, 1_001_000, 1_003_000),
        ("model.py:12 forward < train.py:40 step", GB, 1_002_000, None),
    ]


@pytest.mark.parametrize(
    ("idle", "said", "action"),
    [(0, "tensors held 4.00 GB and the device had 0.50 GB left", "Hold less at the peak"),
     (5 * GB, "5.00 GB of memory lay idle in pieces", "Let segments grow")],
)  # fmt: skip
def test_a_failed_request_is_the_finding_with_its_line_and_its_cure(
    tmp_path: Path, idle: int, said: str, action: str
) -> None:
    report = analyze(load([_write(tmp_path, snapshot(idle=idle))], Cache(tmp_path / "cache")))
    (finding,) = report.findings
    assert finding.code == "MEM007"
    assert say(finding.message) == f"Out of memory: 4.00 GB were asked for by model.py:12 forward, while {said}"
    assert say(finding.actions[0].title) == action
    (row,) = report.rows(FailedRequest)
    assert (row.asked_bytes, row.left_bytes, row.idle_bytes) == (4 * GB, GB // 2, idle)
    assert row.holders == "model.py:12 forward < train.py:40 step: 1.00 GB"


def test_a_snapshot_without_a_failure_has_no_finding(tmp_path: Path) -> None:
    content = snapshot()
    content["device_traces"][0].pop()
    assert analyze(load([_write(tmp_path, content)], Cache(tmp_path / "cache"))).findings == ()


def test_a_snapshot_of_an_npu_is_one_of_ascend(tmp_path: Path) -> None:
    (data,) = load([_write(tmp_path, snapshot(settings="PYTORCH_NPU_ALLOC_CONF"))], Cache(tmp_path / "cache")).ranks
    assert data.table("rank", "vendor").item() == "ascend"


_CPP = [{"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
        {"filename": "", "line": 0, "name": "c10::cuda::CUDACachingAllocator::Native::malloc()"},
        {"filename": "", "line": 0, "name": "at::_ops::mul_Tensor::call(at::Tensor const&)"}]  # fmt: skip
_CPYTHON = {"filename": "/usr/src/python-3.10/Objects/call.c", "line": 215, "name": "_PyObject_MakeTpCall"}


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([*_CPP, _CPYTHON, *_MODEL], "model.py:12 forward < train.py:40 step"),
        ([*_CPP, {"filename": "C:\\\\job\\\\net.py", "line": 3, "name": "forward"}], "net.py:3 forward"),
        ([{"filename": "/x/lib/python3.10/site-packages/torch/optim/adamw.py", "line": 7, "name": "step"},
          {"filename": "/x/lib/python3.10/site-packages/transformers/trainer.py", "line": 9, "name": "train"}],
         "trainer.py:9 train"),
        ([*_CPP, {"filename": "", "line": 0, "name": "torch::autograd::generated::MulBackward0::apply(std::vector)"}],
         "aten::mul_Tensor < MulBackward0"),
        (_CPP[:1], "??:0 torch::unwind::unwind()"),
        ([], "unknown"),
    ],
)  # fmt: skip
def test_a_place_is_a_line_of_the_program_before_any_of_a_library_or_of_c(frames: list[Any], place: str) -> None:
    assert place_of(frames) == place


def test_blocks_from_before_the_history_are_held_by_who_took_them(tmp_path: Path) -> None:
    content = snapshot()
    weights = {"address": 900, "size": 2 * GB, "state": "active_allocated", "frames": [*_CPP, *_MODEL[2:]]}
    known = {"address": 20, "size": GB, "state": "active_allocated", "frames": _MODEL}
    content["segments"][0]["blocks"] = [weights, known, {"address": 5, "size": GB, "state": "inactive"}, None]
    report = analyze(load([_write(tmp_path, content)], Cache(tmp_path / "cache")))
    (row,) = report.rows(FailedRequest)
    assert row.holders == "train.py:40 step: 2.00 GB; model.py:12 forward < train.py:40 step: 1.00 GB"


def test_of_several_devices_each_failure_and_the_peak_have_their_own_holders(tmp_path: Path) -> None:
    content = snapshot()
    small = {**content["segments"][0], "device": 1, "total_size": GB, "allocated_size": GB, "active_size": GB}
    other = [{"filename": "/job/other.py", "line": 1, "name": "fill"}]
    content["segments"].append(small)
    content["device_traces"].append([
        {**_event("alloc", 1_002, 30, GB), "frames": other}, _event("oom", 1_006, 0, 9 * GB, device_free=7),
    ])  # fmt: skip
    report = analyze(load([_write(tmp_path, content)], Cache(tmp_path / "cache")))
    rows = sorted(report.rows(FailedRequest), key=lambda row: row.at_ns)
    assert [(row.device_id, row.holders) for row in rows] == [
        (0, "model.py:12 forward < train.py:40 step: 1.00 GB"), (1, "other.py:1 fill: 1.00 GB"),
    ]  # fmt: skip
    assert {row.operator: row.bytes for row in report.rows(Holder)} == {
        "model.py:12 forward < train.py:40 step": 2 * GB
    }


@pytest.mark.parametrize("name", ["eor_nn", "ftcourse"])
def test_real_snapshots_with_frames_of_c_name_python(name: str, shared: Path, tmp_path: Path) -> None:
    (data,) = load([shared / f"hunt/r16_memory/{name}.pickle.gz"], Cache(tmp_path / "cache")).ranks
    held = data.table("allocation", "name", "bytes").group_by("name").agg(pl.col("bytes").sum()).sort("bytes")
    names = held["name"].to_list()
    assert not [one for one in names if "CachingAllocator" in one]
    assert ".py:" in names[-1]


@pytest.mark.parametrize("name", ["rank3.pickle.gz", "rank3.PKL.GZ"])
def test_a_packed_snapshot_is_read_as_the_plain_one(tmp_path: Path, name: str) -> None:
    plain_ = _write(tmp_path, snapshot())
    (tmp_path / "packed").mkdir()
    packed = tmp_path / "packed" / name
    packed.write_bytes(gzip.compress(plain_.read_bytes()))
    (one,), (other,) = (load([path], Cache(tmp_path / "cache")).ranks for path in (plain_, packed))
    assert (one.rank, other.rank) == (3, 3)
    assert all(one.table(table).equals(other.table(table)) for table in ("memory", "allocation", "counter"))


def test_beside_the_plain_snapshot_the_packed_one_is_not_a_second_rank(tmp_path: Path) -> None:
    plain_ = _write(tmp_path, snapshot(), "a.pickle")
    (tmp_path / "a.pickle.gz").write_bytes(gzip.compress(plain_.read_bytes()))
    assert len(load([tmp_path], Cache(tmp_path / "cache")).ranks) == 1


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: packed[:200] + b"?" * 50 + packed[250:]])
def test_a_damaged_packed_snapshot_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "rank3.pickle.gz"
    content = snapshot()
    content["device_traces"][0] *= 50
    path.write_bytes(damage(gzip.compress(pickle.dumps(content, protocol=4))))
    with pytest.raises(InputError) as refused:
        load([path], Cache(tmp_path / "cache"))
    assert str(path) in str(refused.value.where)
    assert say(refused.value.hint)


def test_a_packed_snapshot_that_grows_without_end_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.base.limits.HARMLESS_BYTES", 1 << 16)
    path = tmp_path / "bomb.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps({**snapshot(), "zeros": "0" * (32 << 20)}, protocol=4)))
    with pytest.raises(InputError, match="unpacks to too many bytes") as refused:
        load([path], Cache(tmp_path / "cache"))
    assert "HERMES_LIMIT_ARCHIVE_RATIO" in say(refused.value.hint)


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


@pytest.mark.parametrize("packed", [False, True])
def test_a_pickle_that_calls_anything_is_refused_and_nothing_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _write(tmp_path, {"segments": [], "device_traces": [], "extra": _Harmful()})
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
        path = path.rename(path.with_name("rank3.pickle.gz"))
    with pytest.raises(InputError, match="more than plain data"):
        load([path], Cache(tmp_path / "cache"))
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("cut", [1, 40, 300])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = _write(tmp_path, snapshot())
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(InputError):
        load([path], Cache(tmp_path / "cache"))


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(_PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_comes_back_as_it_was(value: object, protocol: int) -> None:
    assert plain(io.BytesIO(pickle.dumps(value, protocol=protocol))) == value


@given(st.binary(max_size=200))
def test_junk_is_never_more_than_an_error(junk: bytes) -> None:
    try:
        plain(io.BytesIO(junk))
    except ValueError:
        return


def test_a_class_is_more_than_plain_data() -> None:
    with pytest.raises(NotPlainError):
        plain(io.BytesIO(pickle.dumps(Path("x"))))
