"""Draws the first screen of a report: what is missing, the answer, the tree, three actions, and where the rest is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from hermes.base.say import say
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.report import first_screen_messages as say_that
from hermes.report.localized_texts import Tell
from hermes.report.plan_text import draw_title
from hermes.report.plan_words import gain_words, nothing_sentence, who_words
from hermes.report.report_rows import computes_on_host, notes_beyond_gaps
from hermes.report.terminal_lines import Screen
from hermes.report.tree_text import draw_tree

MOST_LINES = 40
"""The most lines of the first screen, at 80 columns: what one looks at without scrolling."""
_ANSWER, _TREE, _ACTIONS = 8, 13, 3


def render_first_screen(
    report: Report, console: Console, *, paths: Sequence[str] = (), written: Sequence[str] = (), tell: Tell = say
) -> None:
    """Draw the first screen on `console`: at most `MOST_LINES` lines.

    `paths` are the inputs as the user named them, and `written` the files with the whole report, if any were written.
    """
    screen = Screen(console, tell=tell)
    _missing(screen, report)
    screen.line(screen.say(report.verdict.message), style="bold", hang=0, most=_ANSWER)
    draw_tree(screen, report, _TREE)
    _actions(screen, report)
    screen.gap()
    # What users copy stands whole, however long.
    for capture in report.plan.captures[:1]:
        screen.raw(f"{screen.say(say_that.RECORD)}: {capture.command}", indent=0)
        screen.line((screen.say(capture.why), "dim"), indent=2, hang=0, most=2)
    rest = ", ".join(written) or f"hermes analyze {' '.join(paths)} --full"
    screen.raw(f"{screen.say(say_that.REST)}: {rest}", indent=0)


def _actions(screen: Screen, report: Report) -> None:
    """Draw the first actions: what each gives, what to do, and where."""
    plan = report.plan
    if not plan.floor.step_ns:
        return
    screen.gap()
    if not plan.actions:
        screen.line(nothing_sentence(plan), most=2)
        return
    draw_title(screen, report)
    for at, one in enumerate(plan.actions[:_ACTIONS], start=1):
        screen.line((f"{at}. {gain_words(one)}", "bold"), f"  {screen.say(one.title)}", indent=2, hang=3, most=2)
        screen.line((screen.shorten(_where(screen, one, report), screen.width - 5), "dim"), indent=5, most=1)


def _where(screen: Screen, one: Advice, report: Report) -> str:
    """The codes of an action's findings, and its line, else its ranks and what it blames."""
    place = one.lines[0] if one.lines else who_words(one, report.coverage.ranks_seen)
    return f"{', '.join(one.codes)}  {screen.say(place)}"


def _missing(screen: Screen, report: Report) -> None:
    """Draw one line on what was not recorded or not read: the gravest, and how many more."""
    degraded = [note.message for note in notes_beyond_gaps(report)]
    unread = [row.why or row.name for row in report.coverage.files if row.state == "not known"]
    gaps = () if computes_on_host(report) else report.coverage.missing
    missing = list(dict.fromkeys([*gaps, *degraded, *unread]))
    if missing:
        more = f"  {screen.say(say_that.more(n=len(missing) - 1))}" if len(missing) > 1 else ""
        label = f"{screen.say('Coverage')}: "
        room = screen.width - len(label) - len(more)
        screen.line((label, "bold yellow"), screen.shorten(missing[0], max(room, 20)), more, most=1)
