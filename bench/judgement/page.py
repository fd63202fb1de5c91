"""Formats judgements of profiles: a line for the terminal, a table for the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.judgement.first_contact import COMMITS, FIRST, First
from bench.judgement.judge import Judgement
from bench.judgement.opinion import Opinion
from hermes.model.leaf import Leaf
from hermes_testing.markdown import replace_block, table

_HEADER = ("profile", "expert", "first contact", "now")


def line(one: Judgement) -> str:
    """A line on one profile, and below it the forbidden statements of its report."""
    verdict = f"WRONG {one.wrong}, the expert says {_expert(one.opinion)}" if one.wrong else "right"
    if one.wrong == "leaf" and one.said:
        verdict += " (which the headline says to take most of the time)"
    said = f"{one.opinion.name:<34} {_leaf(one.leaf, one.rank):<26} {one.share:4.0%}  {verdict}"
    measured = one.opinion.measured
    if measured is not None:
        told = "nothing" if one.gain is None else f"{one.gain[0]:.1%} to {one.gain[1]:.1%}"
        said += f"; gain {told}, measured {measured.share:.1%}{'' if one.holds_measured else ', OUTSIDE'}"
    return "\n".join([said, *(f"    {fault}" for fault in one.faults)])


def summary(answers: Sequence[First], asked: int) -> str:
    """The figures of some answers in one line; unreadable profiles are not counted."""
    leaves = sum(one.wrong != "leaf" for one in answers)
    right = sum(not one.wrong for one in answers)
    clean = sum(one.clean for one in answers)
    return (
        f"first leaf {leaves} of {asked}, with its rank {right} of {asked}, "
        f"nothing impossible and nothing foreign {clean} of {asked}"
    )


def answer(one: Judgement) -> First:
    """The current answer, in the form in which first answers are kept."""
    return First(one.leaf, one.rank, one.wrong, clean=not one.faults)


def into_page(page: Path, opinions: Sequence[Opinion], judged: Sequence[Judgement]) -> None:
    """Put the table and both figures between the marks of the page; raises `MarkerError` without marks."""
    now = {one.opinion.name: answer(one) for one in judged}
    commits = ", ".join(f"`{commit}` ({profiles} profiles)" for commit, profiles in COMMITS.items())
    rows = [
        (f"`{one.name}`", _expert(one), _told(one, FIRST.get(one.name)), _told(one, now.get(one.name)))
        for one in opinions
    ]
    measured = [one for one in judged if one.opinion.measured]
    holds = sum(bool(one.holds_measured) for one in measured)
    text = (
        f"First contact, commit {commits}: {summary([*FIRST.values()], len(FIRST))}.\n\n"
        f"Now: {summary([*now.values()], len(opinions))}. The predicted range contains the gain that the published "
        f"cure gave in {holds} of {len(measured)} cases.\n\n{table(_HEADER, rows)}"
    )
    page.write_text(replace_block(page.read_text("utf-8"), "judgement", text), "utf-8")


def _told(opinion: Opinion, said: First | None) -> str:
    if said is None or said.leaf is None:
        return "**not read**"
    shown = "same" if not said.wrong else f"**{_leaf(said.leaf, None if opinion.rank is None else said.rank)}**"
    return shown if said.clean else f"{shown}, a fault"


def _expert(opinion: Opinion) -> str:
    also = f" or {_leaf(opinion.also, None)}" if opinion.also else ""
    return _leaf(opinion.leaf, opinion.rank) + also


def _leaf(leaf: Leaf | None, rank: int | None) -> str:
    said = leaf.value.replace("_", " ") if leaf else "nothing"
    return said if rank is None else f"{said}, rank {rank}"
