"""`tools/second_chance.py`: a test that fails once is named, and one that fails twice fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

TOOL = Path(__file__).resolve().parents[1] / "tools" / "second_chance.py"
# Each test fails until it has run so often; the count is kept in a file.
TESTS = """
import pathlib, pytest

@pytest.mark.parametrize(("name", "passes_at"), {tests})
def test_it(name, passes_at):
    runs = pathlib.Path(__file__).with_name(name)
    runs.write_text(runs.read_text() + "." if runs.exists() else ".")
    assert len(runs.read_text()) >= passes_at, "what the program printed\\nline by line"
"""


def run(folder: Path, **tests: int) -> tuple[int, list[str]]:
    (folder / "test_some.py").write_text(TESTS.format(tests=list(tests.items())))
    done = subprocess.run(
        [sys.executable, str(TOOL), "-q", str(folder)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("flaky: ")]


def test_a_test_that_passes_the_second_time_passes_the_run_and_is_named(tmp_path: Path) -> None:
    code, (line,) = run(tmp_path, good=1, flaky=2)
    assert code == 0
    assert line.startswith(
        "flaky: test_some.py::test_it[flaky-2]: AssertionError: what the program printed; assert 1 >= 2"
    )


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, flaky=2, bad=9) == (1, [])
    assert {path.name: len(path.read_text()) for path in tmp_path.glob("[bf]*")} == {"flaky": 2, "bad": 2}


def test_more_than_three_get_no_second_chance(tmp_path: Path) -> None:
    assert run(tmp_path, one=2, two=2, three=2, four=2) == (1, [])


def test_a_run_without_a_failed_test_runs_once(tmp_path: Path) -> None:
    assert run(tmp_path, good=1) == (0, [])
    assert (tmp_path / "good").read_text() == "."


def test_a_run_that_cannot_begin_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("an error of syntax")
    assert run(tmp_path, good=1)[0] not in (0, 1)
