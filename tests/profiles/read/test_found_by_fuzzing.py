"""What `fuzz/fuzz_reader.py` and the search for bad input found, each as small as it goes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from hermes.profiles.load import Loaded, load
from hermes.store.cache import Cache
from hermes_testing import Job, generate

JOB = Job(ranks=1, steps=1, layers=1, level="Level1")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return generate(tmp_path / "in", JOB, formats=["ascend-text"])


def read(folder: Path, tmp_path: Path) -> Loaded:
    return load([folder], Cache(tmp_path / "cache"))


def one(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


def test_an_event_without_a_name_has_an_empty_one(text: Path, tmp_path: Path) -> None:
    path = one(text, "trace_view.json")
    events = json.loads(path.read_text())
    for event in events:
        if event["ph"] == "X":
            event.pop("name")
    path.write_text(json.dumps(events))
    (rank,) = read(text, tmp_path).ranks
    assert "" in set(rank.table("host_op")["name"])


def test_columns_whose_names_differ_in_case_alone_are_both_read(text: Path, tmp_path: Path) -> None:
    path = one(text, "kernel_details.csv")
    path.write_text(path.read_text().replace("OP State", "type", 1))
    (rank,) = read(text, tmp_path).ranks
    assert rank.table("kernel")["type"].null_count() < rank.table("kernel").height


def test_a_step_mark_with_a_number_beyond_64_bits_is_no_step(tmp_path: Path) -> None:
    folder = generate(tmp_path / "in", JOB, formats=["ascend-db"])
    con = sqlite3.connect(one(folder, "ascend_pytorch_profiler_0.db"), isolation_level=None)
    con.execute("DELETE FROM STEP_TIME")
    con.execute("UPDATE STRING_IDS SET value = 'ProfilerStep#99999999999999999999' WHERE value LIKE 'ProfilerStep#%'")
    con.close()
    (rank,) = read(folder, tmp_path).ranks
    assert rank.table("step").height == 0
    assert rank.table("kernel").height > 0


def test_a_folder_whose_name_is_no_utf_8_gives_a_legible_capture(tmp_path: Path) -> None:
    folder = generate(tmp_path / "in", JOB, formats=["kineto"])
    odd = folder.rename(folder.with_name("odd-\udcff"))
    (rank,) = read(odd, tmp_path).ranks
    assert rank.table("rank")["capture"][0].startswith("odd-")
