"""Hostile and damaged recordings are refused, or read as far as they go; what is lost is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.patience import PATIENCE_S
from tests.precision.test_compare import network

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.precision.api import compare
from hermes.precision.compare import read
from hermes.precision.read.tensors import _shown
from hermes.precision.recorded_step import RecordedValue, ValueView


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rank0" / "index.jsonl").read_text().splitlines()]


def rewrite(folder: Path, found: list[dict[str, Any]]) -> None:
    (folder / "rank0" / "index.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n")


def said(golden: Path, target: Path) -> set[str]:
    notes = [one.message for one in compare(golden, target, jobs=1).diagnostics]
    return {note.identifier.removeprefix("precision.read.") for note in notes if isinstance(note, Message)}


def test_an_index_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    index = target / "rank0" / "index.jsonl"
    index.write_bytes(index.read_bytes()[:-300])
    assert said(golden, target) == {"damaged_lines", "no_end"}


def test_a_step_that_a_killed_process_left_is_read(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target", whole=False)
    assert said(golden, target) == {"no_end"}
    assert compare(golden, target, jobs=1).verdict == "incomplete"


def test_a_part_that_is_too_short_is_no_difference_but_not_known(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden", tensors=True), network(tmp_path / "target", tensors=True)
    part = next((target / "rank0").glob("*.safetensors"))
    part.write_bytes(part.read_bytes()[:-200])
    rows = compare(golden, target, jobs=1).judgements[0].rows
    assert rows[-1].outputs is not None
    assert rows[-1].outputs.known == "none"


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("shape", [1 << 40, 1 << 40]), ("shape", [-1]), ("shape", "16"), ("dtype", 7), ("stats", [1.0]),
        ("stats", "abc"),
        ("value", 10**9), ("view", [99, [1], 0]), ("view", [-1, [1], 0]),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_left_out(tmp_path: Path, key: str, wrong: Any) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    found = lines(target)
    next(line for line in found if line.get("value") == 4)[key] = wrong
    rewrite(target, found)
    assert "damaged_entries" in said(golden, target)


@pytest.mark.parametrize("wrong", [[0, 1, 2, 10**12], [-1], ["0"], None])
def test_an_operator_with_values_that_are_not_there_is_left_out(tmp_path: Path, wrong: Any) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    found = lines(target)
    next(line for line in found if "op" in line)["in"] = wrong
    rewrite(target, found)
    assert "damaged_entries" in said(golden, target)


@pytest.mark.parametrize("part", ["../../secret", "/etc/passwd", "step0.000.safetensors/../x", "x.pt", 3])
def test_a_part_outside_of_the_folder_is_not_opened(tmp_path: Path, part: Any) -> None:
    golden, target = network(tmp_path / "golden", tensors=True), network(tmp_path / "target", tensors=True)
    found = lines(target)
    next(line for line in found if "data" in line)["data"][0] = part
    rewrite(target, found)
    assert "damaged_entries" in said(golden, target)


def test_a_part_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden", tensors=True), network(tmp_path / "target", tensors=True)
    part = next((target / "rank0").glob("*.safetensors"))
    part.rename(tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    assert all(
        row.outputs is None or row.outputs.known == "none" for row in compare(golden, target, jobs=1).judgements[0].rows
    )


def test_a_deeply_nested_line_is_left_out(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    with (target / "rank0" / "index.jsonl").open("a") as index:
        index.write("[" * 100_000 + "\n")
    assert "damaged_lines" in said(golden, target)


def test_a_name_in_no_known_letters_is_read(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden"), network(tmp_path / "target")
    for folder in (golden, target):
        found = lines(folder)
        next(line for line in found if "op" in line)["args"] = ["/data/caf\udce9.pt"]
        rewrite(folder, found)
    assert said(golden, target) == set()
    assert compare(golden, target, jobs=1).verdict == "agree"


def test_another_format_is_refused(tmp_path: Path) -> None:
    folder = network(tmp_path / "golden")
    found = lines(folder)
    found[0]["format"] = "hermes.recording/9"
    rewrite(folder, found)
    with pytest.raises(InputError, match="No rank"):
        read(folder)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="neither"):
        read(tmp_path / "x")
    with pytest.raises(InputError, match="no such"):
        read(tmp_path / "y")


@pytest.mark.live
def test_a_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    golden, target = network(tmp_path / "golden", tensors=True), network(tmp_path / "target", tensors=True)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    for path in files:
        path.unlink()
        os.mkfifo(path)
        call = [sys.executable, "-m", "hermes", "precision", "compare", str(golden), str(target)]
        done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode in (1, 2), "Traceback" in done.stderr) == (True, False), (path.name, done)


def test_a_view_that_shows_an_element_any_number_of_times_is_not_made(tmp_path: Path) -> None:
    value = RecordedValue(number=1, dtype="float32", shape=(1 << 32,), view=ValueView(base=0, strides=(0,), offset=0))
    base = RecordedValue(number=0, dtype="float32", shape=(1,), strides=(1,))
    assert _shown(np.zeros(1, np.float32), value, base) is None
    few = RecordedValue(number=1, dtype="float32", shape=(1 << 10,), view=ValueView(base=0, strides=(0,), offset=0))
    assert _shown(np.zeros(1, np.float32), few, base) is not None
