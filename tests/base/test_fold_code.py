"""Code that is folded for a narrow terminal still means the same."""

from __future__ import annotations

import ast
import shlex

import pytest

from hermes.base.fold_code import fold_code


def folded(code: str, width: int = 40) -> list[str]:
    return list(fold_code(code, width))


def test_lines_that_fit_stay_as_they_are_and_empty_ones_are_left_out() -> None:
    assert folded("a = f(b)  # c\n\nd = 1") == ["a = f(b)  # c", "d = 1"]


@pytest.mark.parametrize(
    "line",
    [
        "loader = DataLoader(ds, num_workers=min(8, cores() - 1), persistent_workers=True)",
        "f('a, b', [c, d], (e, g), h, i, jjjjjjjjjjj, k)",
    ],
)
def test_folded_python_is_the_same_program(line: str) -> None:
    lines = folded(line)
    assert len(lines) > 1
    assert max(map(len, lines)) <= 40
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(line))


def test_a_folded_command_is_the_same_command() -> None:
    line = "--tensor-model-parallel-size 8 --sequence-parallel --use-distributed-optimizer"
    lines = folded(line)
    assert max(map(len, lines)) <= 40
    # A shell takes the end of a line away behind a backslash.
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == line.split()


def test_a_comment_behind_a_long_line_gets_lines_of_its_own() -> None:
    lines = folded("export A_LONG_NAME_OF_A_SETTING=1  # only where the table lists it for your product")
    assert lines[0] == "export A_LONG_NAME_OF_A_SETTING=1"
    assert all(line.startswith("# ") and len(line) <= 40 for line in lines[1:])


def test_prose_is_folded_between_words() -> None:
    text = "drop .contiguous() where the next operator takes strides; q and v as views"
    assert " ".join(folded(text)) == text


def test_a_line_without_a_place_to_fold_stays_whole() -> None:
    assert folded("x" * 60) == ["x" * 60]
