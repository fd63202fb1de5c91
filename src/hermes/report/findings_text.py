"""Draws findings on the terminal, in the same form for analysis, precision, migration and alarms."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.message import Text
from hermes.base.units import duration
from hermes.knowledge.kernel_names import plain_kernel_name
from hermes.model.finding import Evidence, Finding, Loss
from hermes.report import value_labels
from hermes.report.format import fraction, number
from hermes.report.terminal_lines import Screen
from hermes.report.value_labels import Label

_BLAMES = 2
_EVIDENCE = 3
_INDENT = 5


def draw_findings(screen: Screen, findings: Sequence[Finding], *, most: int, answer: Text) -> None:
    """Draw at most `most` stable findings, numbered, and then a line for each finding of a preview rule.

    A finding whose message is the `answer` above it is headed by its code, so that no sentence appears twice.
    """
    stable = [one for one in findings if one.state == "stable"]
    for at, one in enumerate(stable[:most], start=1):
        _finding(screen, at, one, head=one.code if one.code and one.message == answer else one.message)
    if len(stable) > most:
        screen.line(value_labels.more(n=len(stable) - most), indent=2)
    _preview(screen, findings, most=most)


def _finding(screen: Screen, at: int, one: Finding, *, head: Text) -> None:
    """Draw one finding: its message and cost, its ranks and steps, its blame, and its first action."""
    costs = [] if one.cost_ns is None else [duration(one.cost_ns)]
    if isinstance(one, Loss):
        costs.append(fraction(one.share))
    screen.line((" ".join([f"{at}.", *costs]), "bold"), "  " if costs else " ", head, indent=2, hang=3, most=3)
    facts: list[Text] = (
        []
        if one.gain is None
        else [value_labels.gain(range=value_labels.gain_range(one.gain.low_ns, one.gain.high_ns))]
    )
    sure = value_labels.sure(one.confidence)
    facts += [value_labels.confidence(sure=sure)] if sure else []
    facts += [one.code] if one.code and head != one.code else []
    facts += [screen.shorten(text, screen.width - 20) for text in who(one)]
    if isinstance(one, Loss) and one.explained_by:
        facts.append(value_labels.explained_by(codes=one.explained_by))
    screen.items([[fact] for fact in facts], indent=_INDENT, style="dim")
    if one.lines and not isinstance(one, Loss):
        screen.labelled(Label.AT, "; ".join(one.lines), indent=_INDENT)
    for item in one.evidence[:_EVIDENCE]:
        screen.line(measured(item), indent=_INDENT, style="dim", most=2)
    if one.actions:
        screen.labelled(Label.DO, one.actions[0].title, indent=_INDENT)
    for doubt in one.doubts:
        screen.labelled(Label.DOUBTS, doubt, indent=_INDENT)


def _preview(screen: Screen, findings: Sequence[Finding], *, most: int) -> None:
    """Draw a line for each finding of a preview rule."""
    preview = [one for one in findings if one.state == "preview"]
    if preview:
        screen.line((Label.PREVIEW.message, "bold"))
    for one in preview[:most]:
        cost = "" if one.cost_ns is None else f" {duration(one.cost_ns)}"
        screen.line(f"{one.code}{cost}  ", one.message, indent=2, style="dim")
    if len(preview) > most:
        screen.line(value_labels.more(n=len(preview) - most), indent=2)


def who(one: Finding) -> list[Text]:
    """The ranks that a finding affects, and the ranks, links, operators or settings that it blames."""
    said: list[Text] = []
    if one.ranks:
        said.append(value_labels.on_ranks(ranks=one.ranks))
    if one.blames:
        names = [plain_kernel_name(name) for name in one.blames[:_BLAMES]]
        left = len(one.blames) - _BLAMES
        said.append(value_labels.blames(names=names, more=value_labels.also_blames(n=left) if left > 0 else None))
    return said


def measured(item: Evidence) -> Text:
    """A number behind a finding with its limit, in one line."""
    limit = None if item.threshold is None else number(item.threshold, item.unit)
    return value_labels.measured(what=item.what, value=number(item.value, item.unit), limit=limit)
