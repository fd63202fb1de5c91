"""Dumps that msProbe wrote of MindSpore: cells, primitives and functions, elements in files of numpy."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hermes.precision import recording_notes
from hermes.precision.api import compare, write_columns
from hermes.precision.compare import read

DUMPS = Path(__file__).parent / "mindspore_dump"
"""Of one step of a small network, GELU once by its formula and once by its approximation; file names were shortened."""


def test_the_names_of_mindspore_are_operators_modules_and_phases() -> None:
    run = read(DUMPS / "golden")
    assert (run.kind, run.framework, run.what, run.steps) == ("msprobe", "mindspore", "statistics", ((0, 0),))
    ops = run.loader.load(0, 0).ops  # type: ignore[attr-defined]
    seen = {(op.name, op.module, op.phase) for op in ops}
    assert ("module.Dense", "one", "forward") in seen
    assert ("Primitive.matmul.MatMul", "one", "forward") in seen
    assert ("Functional.gelu", "act", "backward") in seen
    assert ("module.LayerNorm gradients", "norm", "gradient") in seen


def test_the_function_is_named_with_its_line_and_its_argument() -> None:
    first = compare(DUMPS / "golden", DUMPS / "target", jobs=1).first
    assert first is not None
    assert (first.operator, first.module, first.kind) == ("Functional.gelu", "act", "another_argument")
    assert first.line == "/home/user/train.py:16"
    assert first.code == "return self.two(self.act(self.norm(self.one(x))))"


def test_a_dump_agrees_with_itself() -> None:
    assert compare(DUMPS / "golden", DUMPS / "golden", jobs=1).answer.identifier == "precision.agree.exact"


def test_its_own_columns_are_written_as_a_table(tmp_path: Path) -> None:
    count = write_columns(DUMPS / "golden", DUMPS / "target", tmp_path / "compare_result.csv")
    with (tmp_path / "compare_result.csv").open() as file:
        rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
    assert len(rows) == count
    gelu = rows["Functional.gelu.0.forward.output.0"]
    assert 0 < abs(float(gelu["Max diff"])) < 1e-3
    assert gelu["NPU Dtype"] == "Float32"
    assert rows["Cell.one.Dense.forward.0.parameters.weight"]["L2norm diff"] == "0.0"


def with_elements(folder: Path, array: np.ndarray, *, name: str = "x.npy") -> Path:
    """A copy of the golden dump in which an output of GELU has its elements in a file."""
    home = folder / "step0" / "rank0"
    shutil.copytree(DUMPS / "golden" / "step0" / "rank0", home)
    document = json.loads((home / "dump.json").read_text())
    document["task"] = "tensor"
    document["data"]["Functional.gelu.0.forward"]["output"][0]["data_name"] = name
    (home / "dump.json").write_text(json.dumps(document))
    (home / "dump_tensor_data").mkdir()
    np.save(home / "dump_tensor_data" / "x.npy", array, allow_pickle=True)
    return folder


def of_gelu(folder: Path) -> tuple[str, float]:
    rows = compare(folder, folder.parent / "golden", jobs=1).judgements[0]
    row = next(
        row for row in rows.rows if row.target is not None and rows.target.ops[row.target].name == "Functional.gelu"
        and rows.target.ops[row.target].phase == "forward"
    )  # fmt: skip
    assert row.outputs is not None
    return row.outputs.known, row.outputs.relative


@pytest.mark.parametrize("change", [0.0, 0.5])
def test_elements_of_numpy_files_are_compared(tmp_path: Path, change: float) -> None:
    array = np.arange(32, dtype=np.float32).reshape(4, 8)
    with_elements(tmp_path / "golden", array)
    with_elements(tmp_path / "target", array + np.float32(change))
    known, apart = of_gelu(tmp_path / "target")
    assert known == "elements"
    assert (apart > 0) is (change > 0)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[object()] * 8] * 4, dtype=object), np.zeros((4, 9), np.float32), np.zeros((4, 8), np.float64),
        np.asfortranarray(np.zeros((4, 8), np.float32)),
    ],
    ids=["objects", "another_shape", "another type", "another order"],
)  # fmt: skip
def test_a_file_of_numpy_that_is_not_what_the_dump_says_is_left_out(tmp_path: Path, array: np.ndarray) -> None:
    with_elements(tmp_path / "golden", np.zeros((4, 8), np.float32))
    with_elements(tmp_path / "target", array)
    assert of_gelu(tmp_path / "target")[0] != "elements"


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff", b"\x93NUMPY\x01\x00\x04\x00[[[["])
def test_a_damaged_file_of_numpy_is_left_out(tmp_path: Path, content: bytes) -> None:
    with_elements(tmp_path / "golden", np.zeros((4, 8), np.float32))
    with_elements(tmp_path / "target", np.zeros((4, 8), np.float32))
    (tmp_path / "target" / "step0" / "rank0" / "dump_tensor_data" / "x.npy").write_bytes(content)
    found = compare(tmp_path / "golden", tmp_path / "target", jobs=1)
    assert [one.message for one in found.diagnostics] == [recording_notes.unread(n=1, step=0)]
    assert found.verdict == "incomplete"


def test_statistics_without_mean_and_norm_are_compared_by_what_they_have(tmp_path: Path) -> None:
    """As msProbe writes them where it is asked for a high precision."""
    for name, change in (("golden", 0.0), ("same", 0.0), ("target", 1.0)):
        home = tmp_path / name / "step0" / "rank0"
        shutil.copytree(DUMPS / "golden" / "step0" / "rank0", home)
        document = json.loads((home / "dump.json").read_text())
        for entry in document["data"].values():
            for tensors in entry.values():
                for tensor in tensors if isinstance(tensors, list) else ():
                    if isinstance(tensor, dict) and "Mean" in tensor:
                        tensor["Mean"] = tensor["Norm"] = None
        document["data"]["Functional.gelu.0.forward"]["output"][0]["Max"] += change
        (home / "dump.json").write_text(json.dumps(document))
    assert compare(tmp_path / "golden", tmp_path / "same", jobs=1).verdict == "agree"
    first = compare(tmp_path / "golden", tmp_path / "target", jobs=1).first
    assert first is not None
    assert first.operator == "Functional.gelu"
