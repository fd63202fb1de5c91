"""Draws judgements: a line for the terminal, a table for the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.real.judge import AMONG, Judgement
from hermes_testing.markdown import replace_block, table

_HEADER = ("profile", "job", "an expert first says", "Hermes first says", "first", f"among {AMONG}", "faults")


def line(one: Judgement) -> str:
    """One profile, and below it what must not be said."""
    first = one.causes[0] if one.causes else "nothing"
    said = f"{one.opinion.name:<38} {'right' if one.first else 'WRONG':<6} {one.bound:<14} {first}"
    measured = one.opinion.measured
    if measured is not None:
        told = "nothing" if one.gain is None else f"{one.gain[0]:.1%} to {one.gain[1]:.1%}"
        said += f"  | gain told {told}, measured {measured.share:.1%}"
    return "\n".join([said, *(f"    {fault}" for fault in one.faults)])


def summary(judged: Sequence[Judgement], asked: int) -> str:
    """The figures in one line."""
    first, others = sum(one.first for one in judged), sum(one.others for one in judged)
    clean = sum(not one.faults for one in judged)
    return f"first cause {first} of {asked}, others {others} of {asked}, without a fault {clean} of {asked}"


def into_page(page: Path, judged: Sequence[Judgement], asked: int) -> None:
    """Put table and figures between the marks of the page; raises `MarkerError` without marks."""
    text = f"{table(_HEADER, [_row(one) for one in judged])}\n\n{summary(judged, asked).capitalize()}."
    page.write_text(replace_block(page.read_text("utf-8"), "real", text), "utf-8")


def _row(one: Judgement) -> tuple[str, ...]:
    return (
        f"`{one.opinion.name}`",
        one.opinion.job,
        " or ".join(one.opinion.first) or "nothing",
        one.causes[0] if one.causes else "nothing",
        "yes" if one.first else "no",
        "yes" if one.others else "no",
        "; ".join(one.faults) or "none",
    )
