"""Dumps of msProbe on either side: what its comparison gets wrong is told rightly, and what is hostile is refused."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random as chance
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.drawn import random

from hermes.base.errors import HermesError
from hermes.inside.record.options import Options, of_config
from hermes.precision import distance
from hermes.precision import recording_notes as say
from hermes.precision.api import Comparison, compare, document
from hermes.precision.msprobe_columns import columns_of_elements, table

X = random(0, 8, 16)
Call = tuple[str, np.ndarray, np.ndarray]


def entry(array: np.ndarray, kind: str, **more: Any) -> dict[str, Any]:
    """A tensor as msProbe writes it."""
    found = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape), "requires_grad": False}
    wide = array.astype(np.float64)
    numbers = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.sqrt((wide**2).sum())}
    found |= {name: float(number) for name, number in numbers.items()}
    if kind == "md5":
        found["md5"] = f"{hash(array.tobytes()) & 0xFFFFFFFF:08x}"
    return {**found, **more}


def saved(path: Path, array: np.ndarray) -> None:
    """A `.pt` file of one plain tensor, in the layout of torch."""
    shape = b"".join(b"K" + bytes([one]) for one in array.shape)
    strides = b"".join(b"K" + bytes([one]) for one in (array.shape[1], 1))
    pickled = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK" + bytes([array.size]) + b"tQK\x00" + shape + b"\x86" + strides
        + b"\x86\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("one/data.pkl", pickled)
        file.writestr("one/data/0", array.astype(np.float32).tobytes())


def dump(folder: Path, *calls: Call, kind: str = "statistics", rank: str = "rank0", **more: Any) -> Path:
    """`step0/rank0` of a dump; a call is its name, its input and its output."""
    home = folder / "step0" / rank
    (home / "dump_tensor_data").mkdir(parents=True)
    data: dict[str, Any] = {}
    for name, given, made in calls:
        parts = {}
        for side, array in (("input_args", given), ("output", made)):
            place = f"{name}.{side.split('_')[0]}.0.pt"
            named = {"data_name": place} if kind == "tensor" else {}
            if kind == "tensor":
                saved(home / "dump_tensor_data" / place, array)
            parts[side] = [entry(array, kind, **{**named, **more})]
        data[name] = {**parts, "input_kwargs": {}}
    text = json.dumps({"task": kind if kind == "tensor" else "statistics", "level": "L1", "framework": "pytorch",
                       "dump_data_dir": None, "data": data})  # fmt: skip
    (home / "dump.json").write_text(text)
    return folder


def network(folder: Path, *, gelu: float = 0.0, insert: bool = False, **more: Any) -> Path:
    """`linear`, perhaps an addition of nothing, `gelu`, `linear`."""
    hidden = X * 2
    active = np.maximum(hidden, 0) + np.float32(gelu) * np.abs(hidden)
    calls = [("Functional.linear.0.forward", X, hidden)]
    calls += [("Tensor.__add__.0.forward", hidden, hidden)] if insert else []
    calls += [("Functional.gelu.0.forward", hidden, active), ("Functional.linear.1.forward", active, active * 3)]
    return dump(folder, *calls, **more)


def both(tmp_path: Path, **changed: Any) -> Comparison:
    kind = changed.pop("kind", "statistics")
    return compare(network(tmp_path / "a", kind=kind), network(tmp_path / "b", kind=kind, **changed), jobs=1)


KINDS = pytest.mark.parametrize("kind", ["statistics", "md5", "tensor"])


@KINDS
def test_equal_dumps_agree(tmp_path: Path, kind: str) -> None:
    assert both(tmp_path, kind=kind).verdict == "agree"


@KINDS
def test_the_operator_with_another_result_is_the_first(tmp_path: Path, kind: str) -> None:
    first = both(tmp_path, kind=kind, gelu=0.001).first
    assert first is not None
    assert first.operator == "Functional.gelu"


@KINDS
def test_an_operator_that_changes_nothing_shifts_no_other(tmp_path: Path, kind: str) -> None:
    assert both(tmp_path, kind=kind, insert=True).first is None


@pytest.mark.parametrize("rank", ["rank0", "proc4711"])
@pytest.mark.parametrize("part", ["", "step0", "step0/{rank}/dump.json"])
def test_each_form_of_a_dump_is_compared_in_full(tmp_path: Path, rank: str, part: str) -> None:
    sides = [network(tmp_path / name, gelu=gelu, rank=rank) / part.format(rank=rank)
             for name, gelu in (("a", 0.0), ("b", 0.001))]  # fmt: skip
    first = compare(*sides, jobs=1).first
    assert first is not None
    assert first.operator == "Functional.gelu"


def test_a_nan_is_a_difference_and_its_origin_is_named(tmp_path: Path) -> None:
    nan = np.where(np.arange(128).reshape(8, 16) == 3, np.nan, X)
    sides = [dump(tmp_path / name, ("Torch.log.0.forward", X, made), ("Tensor.mul.0.forward", made, made))
             for name, made in (("a", X), ("b", nan))]  # fmt: skip
    assert "NaN" in (sides[1] / "step0/rank0/dump.json").read_text()
    first = compare(*sides, jobs=1).first
    assert first is not None
    assert (first.operator, first.kind) == ("Torch.log", "not_finite")


def test_a_mean_that_is_close_to_nothing_is_no_difference(tmp_path: Path) -> None:
    centred = X - X.mean()
    sides = [dump(tmp_path / name, ("Functional.layer_norm.0.forward", X, centred + np.float32(shift)))
             for name, shift in (("a", 0.0), ("b", 3e-8))]  # fmt: skip
    assert compare(*sides, jobs=1).first is None


def test_statistics_that_were_not_written_are_not_known_rather_than_equal(tmp_path: Path) -> None:
    sides = [network(tmp_path / "a", Mean=None, Norm=None), network(tmp_path / "b", Mean=None, Norm=None, gelu=0.5)]
    first = compare(*sides, jobs=1).first
    assert first is not None
    assert first.operator == "Functional.gelu"


def test_tensors_that_are_missing_are_said_and_are_no_agreement(tmp_path: Path) -> None:
    sides = [network(tmp_path / name, kind="tensor", Max=None, Min=None, Mean=None, Norm=None) for name in "ab"]
    for one in (sides[1] / "step0/rank0/dump_tensor_data").iterdir():
        one.unlink()
    found = compare(*sides, jobs=1)
    assert [say.unread(n=6, step=0)] == [one.message for one in found.diagnostics]
    assert found.verdict == "incomplete"


def test_what_an_operator_that_is_not_in_the_dump_made_of_a_difference_is_carried(tmp_path: Path) -> None:
    def side(name: str, active: Any) -> Path:
        turned = active.T.copy()  # msProbe writes no line for a view
        calls = [("Functional.gelu.0.forward", X, active), ("Torch.matmul.0.forward", turned, turned * 3)]
        return dump(tmp_path / name, *calls)

    found = compare(side("a", np.maximum(X, 0)), side("b", np.maximum(X, 0) + np.float32(0.01) * np.abs(X)), jobs=1)
    assert [row.state for row in found.judgements[0].rows] == ["blamed", "carried"]
    assert [link.operator for link in found.chain] == ["gelu", "matmul"]


@pytest.mark.live
def test_elements_are_compared_by_several_processes_as_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [network(tmp_path / "a", kind="tensor"), network(tmp_path / "b", kind="tensor", gelu=0.5)]
    lost = sorted((sides[1] / "step0/rank0/dump_tensor_data").iterdir())[-2:]
    for file in lost:
        file.write_bytes(b"cut")
    alone = compare(*sides, jobs=1)
    monkeypatch.setattr(distance, "_MANY", 0)
    several = compare(*sides, jobs=3)
    assert [one.rows for one in several.judgements] == [one.rows for one in alone.judgements]
    assert [one.message for one in several.diagnostics] == [one.message for one in alone.diagnostics]
    assert several.diagnostics[-1].message == say.unread(n=2, step=0)


def test_two_files_that_are_named_are_compared_whatever_they_are_called(tmp_path: Path) -> None:
    files = []
    for name, gelu in (("a", 0.0), ("b", 0.5)):
        (tmp_path / name / f"rank{len(files)}").mkdir(parents=True)
        files.append(tmp_path / name / f"rank{len(files)}" / f"{name}_dump.json")
        whole = network(tmp_path / f"of_{name}", **({"gelu": gelu} if gelu else {}))
        files[-1].write_bytes((whole / "step0/rank0/dump.json").read_bytes())
    assert compare(files[0], files[0], jobs=1).verdict == "agree"
    found = compare(*files, jobs=1).first
    assert found is not None
    assert found.operator == "Functional.gelu"


def test_a_configuration_for_core_operators_leaves_out_no_product() -> None:
    asked = Options(of_config({"task": "statistics", "level": "L1", "risk_level": "CORE", "dump_path": "/d"}))
    assert asked.wants("aten.addmm.default", "Net", "forward")
    assert asked.wants("aten.mm.default", "Net", "forward")


class Bomb:
    def __reduce__(self) -> Any:
        return open, ("/tmp/hermes-unpickled", "w")


@pytest.mark.parametrize("what", ["pickle", "bomb", "empty", "truncated", "link"])
def test_a_file_that_is_no_plain_tensor_is_left_out_and_nothing_of_it_runs(tmp_path: Path, what: str) -> None:
    sides = [network(tmp_path / name, kind="tensor") for name in "ab"]
    path = sides[1] / "step0/rank0/dump_tensor_data/Functional.gelu.0.forward.output.0.pt"
    whole = path.read_bytes()
    path.unlink()
    if what == "link":
        path.symlink_to("/etc/passwd")
    elif what == "pickle":
        path.write_bytes(pickle.dumps(Bomb()))
    elif what == "bomb":
        with zipfile.ZipFile(held := io.BytesIO(), "w") as file:
            file.writestr("one/data.pkl", pickle.dumps(Bomb()))
            file.writestr("one/data/0", bytes(512))
        path.write_bytes(held.getvalue())
    else:
        path.write_bytes(b"" if what == "empty" else whole[: len(whole) // 2])
    found = compare(*sides, jobs=1)
    assert not Path("/tmp/hermes-unpickled").exists()
    assert say.unread(n=1, step=0) in [one.message for one in found.diagnostics]


def test_a_damaged_dump_is_refused_or_read_as_far_as_it_goes(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "a"), network(tmp_path / "b")
    file = target / "step0/rank0/dump.json"
    whole = file.read_bytes()
    weird: list[Any] = [None, True, -1, 1 << 70, "x", [], {}, [[]], "../../etc/passwd", 1e308]
    for seed in range(60):
        draw = chance.Random(seed)
        found = json.loads(whole)
        call = draw.choice(list(found["data"].values()))
        part = draw.choice(["input_args", "output"])
        if draw.random() < 0.3:
            call[part] = draw.choice(weird)
        else:
            call[part][0][draw.choice(list(call[part][0]))] = draw.choice(weird)
        raw = json.dumps(found).encode()
        file.write_bytes(raw[: draw.randrange(len(raw))] if seed % 4 == 0 else raw)
        with contextlib.suppress(HermesError):
            assert document(compare(golden, target, jobs=1)).facts["counts"]


def test_columns_are_those_of_its_formulas() -> None:
    golden, target = np.array([1.0, 2.0, 0.0, -4.0]), np.array([1.0005, 2.0, 0.0, -4.5])
    found = columns_of_elements(target, golden)
    cosine = target @ golden / np.linalg.norm(target) / np.linalg.norm(golden)
    assert found[0] == pytest.approx(cosine if cosine <= 0.9999 else round(cosine, 6))
    assert found[1:] == pytest.approx((np.hypot(0.0005, 0.5), 0.5, 0.125, 0.75, 0.75))
    assert columns_of_elements(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == ("N/A",) * 6


def test_the_table_has_the_statistics_that_the_dumps_record_of_both_sides(tmp_path: Path) -> None:
    head, *found = table(network(tmp_path / "a"), network(tmp_path / "b", gelu=0.5))
    row = next(dict(zip(head, one, strict=True)) for one in found if "gelu.0.forward.output" in str(one[0]))
    for side, gelu in (("Bench", 0.0), ("NPU", 0.5)):
        made = (np.maximum(X * 2, 0) + np.float32(gelu) * np.abs(X * 2)).astype(np.float64)
        expected = {"max": made.max(), "min": made.min(), "mean": made.mean(), "l2norm": np.sqrt((made**2).sum())}
        assert {name: row[f"{side} {name}"] for name in expected} == pytest.approx(expected, rel=1e-6)
