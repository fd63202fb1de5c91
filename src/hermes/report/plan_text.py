"""Draws the plan and the user's code on the terminal: what to do, at which line, and where the step's time goes."""

from __future__ import annotations

from hermes.base.fold_code import fold_code
from hermes.knowledge.user_code import is_example
from hermes.model.code_measures import CodeLine
from hermes.model.report import Report
from hermes.report.code_text import code_order, code_words
from hermes.report.format import duration, fraction
from hermes.report.plan_words import (
    facts,
    gain_words,
    minor_words,
    nothing_sentence,
    together_sentence,
    unprofiled_sentence,
)
from hermes.report.terminal_lines import Screen

_ACTIONS = 5
_CHANGES = 3
_CAPTURES = 2
_MINOR = 2
_LINES = 5
# A smaller share of the step is not worth a line.
_NOTABLE_LINE = 0.05


def draw_plan(screen: Screen, report: Report) -> None:
    """Draw what to do first, the gain of each action, and what to record next."""
    plan = report.plan
    if not plan.floor.step_ns:
        return
    screen.gap()
    if not plan.actions:
        screen.line(nothing_sentence(plan), most=4)
        if any(finding.state == "preview" for finding in report.findings):
            screen.line("A rule that is not trusted yet found one: see Preview.", indent=2)
        _minor(screen, report)
        _next(screen, report)
        return
    draw_title(screen, report)
    for at, one in enumerate(plan.actions[:_ACTIONS], start=1):
        screen.line((f"{at}. {gain_words(one)}", "bold"), f"  {screen.say(one.title)}", indent=2, hang=3, most=2)
        said = [screen.shorten(fact, screen.width - 8) for fact in facts(one, report.coverage.ranks_seen)]
        screen.items([[fact] for fact in said], indent=5, style="dim")
        if one.lines:
            screen.line(("at ", "green"), "; ".join(one.lines), indent=5, most=2)
        if one.after and at <= _CHANGES:
            _change(screen, one.after)
    if len(plan.actions) > _ACTIONS:
        screen.line(f"and {len(plan.actions) - _ACTIONS} more in the report", indent=2)
    if plan.combined and plan.combined.actions > 1:
        screen.line(together_sentence(plan), indent=2, most=2)
    if plan.unprofiled:
        screen.line(unprofiled_sentence(plan), indent=2, style="dim", most=4)
    _minor(screen, report)
    _next(screen, report)


def draw_title(screen: Screen, report: Report) -> None:
    """Draw the title of the actions, and that no action is about the leaf of the headline, if so."""
    screen.line(("What to do", "bold"), "  (gain per step of each alone; in the order of what each adds)")
    if report.verdict.leaf is not None and report.verdict.fault is None:
        screen.line("No rule explains the first leaf; these actions are for smaller ones.", indent=2, style="dim")


def _change(screen: Screen, after: str) -> None:
    """Draw a change of code so that users can copy it; an example is marked as one."""
    screen.line(
        ("an example, put in your own names and numbers:" if is_example(after) else "change:", "green"), indent=5
    )
    for line in fold_code(after, screen.width - 7):
        screen.raw(line, indent=7)


def _minor(screen: Screen, report: Report) -> None:
    """Draw the losses whose gain is below the noise floor, which chance may have made."""
    plan = report.plan
    for one in plan.minor[:_MINOR]:
        screen.line(("gain below the noise: ", "dim"), minor_words(one, screen.say), indent=2, style="dim", most=2)


def _next(screen: Screen, report: Report) -> None:
    for capture in report.plan.captures[:_CAPTURES]:
        own = f"  # {capture.profiler}" if capture.profiler else ""
        screen.line(("Record next: ", "green"), f"{capture.command}{own}", indent=2)
        screen.line(f"{screen.say(capture.why)}.", indent=4, style="dim", most=2)


def draw_code(screen: Screen, report: Report) -> None:
    """Draw the functions of the user's code with the most time, on the rank that the verdict is about."""
    steps = [step.window_ns for step in report.steps if step.rank == report.verdict.rank]
    if not steps:
        return
    mean = sum(steps) // len(steps) or 1
    rows = [row for row in report.rows(CodeLine) if row.rank == report.verdict.rank and row.place]
    rows = [row for row in code_order(rows) if row.spent_ns >= _NOTABLE_LINE * mean]
    if not rows:
        return
    screen.gap()
    screen.line(("Your code", "bold"), "  (time a step of each function itself and of the operators it calls)")
    for row in rows[:_LINES]:
        screen.line(
            f"{duration(row.spent_ns):>8} {fraction(min(row.spent_ns / mean, 1)):>6}  {code_words(row)}",
            indent=2,
            hang=18,
        )
