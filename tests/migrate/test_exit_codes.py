"""The law of exit codes: 0 only where everything was checked and holds; 1 what is not so; 2 what is no program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes.cli.migrate import run

PROGRAM = 'import torch\nx = torch.ones(2, device="cuda")\nprint(x)\n'


def _run(*words: str | Path) -> Result:
    return CliRunner().invoke(run, [str(one) for one in words])


def _tree(root: Path, files: dict[str, str]) -> Path:
    root.mkdir()
    for name, text in files.items():
        (root / name).write_text(text)
    return root


WHOLE, TRUNCATED = {"x.py": PROGRAM}, {"x.py": PROGRAM, "y.py": PROGRAM[:36]}
NOTHING: list[dict[str, str]] = [{}, {"x.py": ""}, {"x.py": "print(1)\n"}, {"notes.md": "cuda\n"}]


@pytest.mark.parametrize("words", [("scan",), ("scan", "--format", "json"), ("scan", "--format", "sarif")])
def test_scan(words: tuple[str, ...], tmp_path: Path) -> None:
    assert _run(*words, _tree(tmp_path / "whole", WHOLE)).exit_code == 0
    assert _run(*words, _tree(tmp_path / "cut", TRUNCATED)).exit_code == 1
    assert _run(*words, _tree(tmp_path / "work", {"x.py": "import apex\n"})).exit_code == 1
    for number, files in enumerate(NOTHING):
        refused = _run(*words, _tree(tmp_path / str(number), files))
        assert refused.exit_code != 0
        assert type(refused.exception).__name__ == "InputError"


@pytest.mark.parametrize("words", [("convert", "--check"), ("convert", "--json"), ("convert", "--diff")])
def test_convert(words: tuple[str, ...], tmp_path: Path) -> None:
    whole = _run(*words, _tree(tmp_path / "whole", WHOLE))
    # With --check also what is not converted yet is told.
    assert whole.exit_code == ("--check" in words)
    assert _run(*words, _tree(tmp_path / "cut", TRUNCATED)).exit_code == 1
    for number, files in enumerate(NOTHING):
        assert type(_run(*words, _tree(tmp_path / str(number), files)).exception).__name__ == "InputError"


def test_a_converted_tree_passes_the_check(tmp_path: Path) -> None:
    assert _run("convert", _tree(tmp_path / "a", WHOLE), "-o", tmp_path / "b").exit_code == 0
    assert _run("convert", "--check", tmp_path / "b").exit_code == 0


@pytest.mark.live
@pytest.mark.parametrize("text", ["", "x = (\n", "print('no torch here')\n"])
def test_verify_of_what_has_no_loss(text: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        _tree(tmp_path / name, {"x.py": text})
    told = _run(
        "verify", tmp_path / "b", "--original", tmp_path / "a", "--format", "json", "--", sys.executable, "x.py"
    )
    assert told.exit_code == 1, told.output
    assert json.loads(told.stdout)["holds"] is False


def test_the_first_line_says_what_is_missing(tmp_path: Path) -> None:
    told = _run("scan", "--lang", "en", _tree(tmp_path / "cut", TRUNCATED)).stdout
    answer = next(line for line in told.splitlines() if "Can it move" in line)
    assert answer.startswith("1 file was not checked.")
