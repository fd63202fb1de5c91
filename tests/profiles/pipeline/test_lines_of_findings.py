"""Findings name lines of the user's code: by the names that they blame, and of a straggler by what it does alone."""

from __future__ import annotations

from dataclasses import replace

from tests.profiles.rules.test_code_rules import ROW, job

from hermes.model.code_measures import CodeLine, NamedLine
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.job import JobMeasures
from hermes.profiles.pipeline.lines_of_findings import with_lines

FINDING = Loss(
    message="t", ranks=(0,), blames=(), cost_ns=1, share=0.1, gain=Gain(low_ns=0, high_ns=1, method="m"),
    confidence=0.5,
    evidence=(), actions=(),
)  # fmt: skip


def lines_of(finding: Loss, *rows: CodeLine | NamedLine) -> tuple[str, ...]:
    (found,) = with_lines([finding], JobMeasures(job().job, rows))
    return found.lines


def test_an_operator_that_is_blamed_says_from_which_line_it_comes() -> None:
    named = NamedLine(rank=0, kind="operator", name="aten::cat", line="net.py:7 `grow`", ns=5, share=0.9)
    assert lines_of(replace(FINDING, blames=(Blame("aten::cat", "operator"),)), named) == ("net.py:7 `grow`",)


def test_a_line_from_which_little_comes_does_not_stand_for_a_name() -> None:
    named = NamedLine(rank=0, kind="operator", name="aten::cat", line="net.py:7 `grow`", ns=5, share=0.1)
    assert lines_of(replace(FINDING, blames=(Blame("aten::cat", "operator"),)), named) == ()


def test_loading_names_the_functions_that_the_loader_calls() -> None:
    inside = replace(ROW, place="data.py:5", function="read", own_ns=9, within="data loading")
    assert lines_of(replace(FINDING, fault=Fault.DATA_LOADING), ROW, inside) == ("data.py:5 `read`",)


def test_a_straggler_names_what_it_does_and_the_others_do_not() -> None:
    straggler = replace(FINDING, fault=Fault.STRAGGLER, blames=(Blame.of_rank(0),), ranks=(1,))
    rows = [replace(ROW, rank=rank, place="train.py:9", function="main", total_ns=1_000) for rank in (0, 1)]
    model = [replace(ROW, rank=rank, place="net.py:3", function="forward", total_ns=300) for rank in (0, 1)]
    alone = replace(ROW, place="train.py:4", function="write", total_ns=600)
    assert lines_of(straggler, *rows, *model, alone) == ("train.py:4 `write`",)
