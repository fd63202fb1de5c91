"""Conversion of two real projects in both styles: it parses, a second run changes nothing, and each edit is a known one."""

from __future__ import annotations

import ast
import random
import resource
import time
from pathlib import Path

import pytest
from benchmarks.migrate import generated

from hermes.migrate.scan_model import Style, Target
from hermes.migrate.scan_source_tree import convert_tree, scan_tree
from hermes.migrate.write import write_beside_tree

PROJECTS = ("nanoGPT", "pytorch-examples")


@pytest.mark.live
@pytest.mark.parametrize("name", PROJECTS)
@pytest.mark.parametrize("style", list(Style))
def test_every_file_parses_and_a_second_run_changes_nothing(
    name: str, style: Style, projects: Path, tmp_path: Path
) -> None:
    change = convert_tree(projects / name, Target(), style)
    for file in change.changed:
        if file.path.endswith(".py"):
            ast.parse(file.after)
    write_beside_tree(change, tmp_path / "out")
    again = convert_tree(tmp_path / "out", Target(), style)
    assert [file.path for file in again.changed] == []


@pytest.mark.live
@pytest.mark.parametrize("name", PROJECTS)
def test_only_the_edited_spans_differ(name: str, projects: Path) -> None:
    for file in convert_tree(projects / name, Target(), Style.NATIVE).changed:
        position, rest = 0, file.after
        for edit in sorted(file.edits, key=lambda one: (one.start, one.end)):
            kept = file.before[position : edit.start]
            assert rest.startswith(kept)
            rest = rest[len(kept) + len(edit.text) :]
            position = edit.end
        assert rest == file.before[position:]


def test_the_shim_goes_into_programs_and_not_into_modules_of_the_same_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text("import torch\nprint(torch.ones(2).cuda())\n")
    (tmp_path / "b" / "main.py").write_text("import train\n")
    changed = {file.path for file in convert_tree(tmp_path, Target(), Style.SHIM).changed}
    assert changed == {"a/train.py"}


def test_nano_gpt_is_scanned_in_two_seconds_of_work(projects: Path) -> None:
    begin = time.process_time()
    scan_tree(projects / "nanoGPT", Target(), workers=1)
    assert time.process_time() - begin < 2


@pytest.mark.slow
def test_time_grows_with_lines_and_stays_below_a_tenth_of_a_second_for_a_hundred(tmp_path: Path) -> None:
    per_line = []
    for size in (500, 8000):
        root = tmp_path / str(size)
        root.mkdir()
        (root / "x.py").write_text(generated(size, random.Random(0)))
        begin = time.process_time()
        scan_tree(root, Target(), workers=1)
        per_line.append((time.process_time() - begin) / size)
    assert per_line[1] < 0.001
    assert per_line[1] < per_line[0] * 2


@pytest.mark.slow
def test_a_thousand_files_take_less_than_a_minute_of_work(tmp_path: Path) -> None:
    for index in range(1000):
        folder = tmp_path / f"p{index % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"m{index}.py").write_text(generated(100, random.Random(index)))
    begin = _work_s()
    found = scan_tree(tmp_path, Target(), workers=2)
    # Work, not waiting: other jobs on the machine do not count. Two cores do sixty seconds of it in thirty.
    assert _work_s() - begin < 60
    assert len(found.files) == 1000


def _work_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
