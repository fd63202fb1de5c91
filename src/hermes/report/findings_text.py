"""Findings on the terminal: the same for analysis, precision, migration and alarms."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.message import Text
from hermes.base.units import duration
from hermes.knowledge.kernel_names import plain
from hermes.model.finding import Evidence, Finding, Loss
from hermes.report import labels
from hermes.report.format import fraction, number
from hermes.report.labels import Label
from hermes.report.screen import Screen

_BLAMES = 2
_EVIDENCE = 3
_INDENT = 5


def draw_findings(screen: Screen, findings: Sequence[Finding], *, most: int, answer: Text) -> None:
    """Stable findings by number, at most so many, then what rules say that are not trusted yet, a line each.

    A finding whose message is the `answer` above it is headed by its code: nothing is said twice.
    """
    stable = [one for one in findings if one.state == "stable"]
    for at, one in enumerate(stable[:most], start=1):
        _finding(screen, at, one, head=one.code if one.code and one.message == answer else one.message)
    if len(stable) > most:
        screen.line(labels.more(n=len(stable) - most), indent=2)
    _preview(screen, findings, most=most)


def _finding(screen: Screen, at: int, one: Finding, *, head: Text) -> None:
    """A finding: what it is and costs, where, whom it blames, and what to do first."""
    costs = [] if one.cost_ns is None else [duration(one.cost_ns)]
    if isinstance(one, Loss):
        costs.append(fraction(one.share))
    screen.line((" ".join([f"{at}.", *costs]), "bold"), "  " if costs else " ", head, indent=2, hang=3, most=3)
    facts: list[Text] = (
        [] if one.gain is None else [labels.gain(range=labels.gain_range(one.gain.low_ns, one.gain.high_ns))]
    )
    sure = labels.sure(one.confidence)
    facts += [labels.confidence(sure=sure)] if sure else []
    facts += [one.code] if one.code and head != one.code else []
    facts += [screen.shorten(text, screen.width - 20) for text in who(one)]
    if isinstance(one, Loss) and one.explained_by:
        facts.append(labels.explained_by(codes=one.explained_by))
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
    """What rules say that have not earned trust yet, a line each."""
    preview = [one for one in findings if one.state == "preview"]
    if preview:
        screen.line((Label.PREVIEW.message, "bold"))
    for one in preview[:most]:
        cost = "" if one.cost_ns is None else f" {duration(one.cost_ns)}"
        screen.line(f"{one.code}{cost}  ", one.message, indent=2, style="dim")
    if len(preview) > most:
        screen.line(labels.more(n=len(preview) - most), indent=2)


def who(one: Finding) -> list[Text]:
    """Which ranks it strikes, and whom it is laid at."""
    said: list[Text] = []
    if one.ranks:
        said.append(labels.on_ranks(ranks=one.ranks))
    if one.blames:
        names = [plain(name) for name in one.blames[:_BLAMES]]
        left = len(one.blames) - _BLAMES
        said.append(labels.blames(names=names, more=labels.also_blames(n=left) if left > 0 else None))
    return said


def measured(item: Evidence) -> Text:
    """A number behind a finding in a line."""
    limit = None if item.threshold is None else number(item.threshold, item.unit)
    return labels.measured(what=item.what, value=number(item.value, item.unit), limit=limit)
