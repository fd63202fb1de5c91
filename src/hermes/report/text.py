"""Draws the report on one screen of a terminal: missing data, the answer, the parts of the step, the losses."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console

from hermes.base.say import say
from hermes.knowledge.kernel_names import plain_kernel_name
from hermes.knowledge.vendor_traits import STEP_FILE
from hermes.model.finding import Loss
from hermes.model.path_measures import StepPath
from hermes.model.report import Report
from hermes.model.step_measures import CommunicationTop, KernelTop, OperatorTop, TopRow
from hermes.model.sum_measures import RecordedSum
from hermes.report import value_labels
from hermes.report.comm_text import notable
from hermes.report.compute_text import compute_items
from hermes.report.format import (
    NOT_MEASURED,
    between,
    confidence,
    counted,
    duration,
    fraction,
    microseconds,
    ranks,
    share,
)
from hermes.report.host_text import host_lines
from hermes.report.localized_texts import Tell
from hermes.report.plan_text import draw_code, draw_plan
from hermes.report.report_rows import (
    ASCEND_FIELDS,
    AscendPair,
    ascend_pairs,
    ascend_values,
    computes_on_host,
    difference_sentence,
    path_part,
    place_of_row,
)
from hermes.report.role_text import role_lines
from hermes.report.service_text import service_lines
from hermes.report.split_text import draw_split
from hermes.report.sums_text import draw_sums
from hermes.report.terminal_lines import Piece, Screen
from hermes.report.tree_text import draw_tree

_WARNINGS = 3
_NOTES = 3
_FINDINGS = 4
_FINDINGS_WITH_CURE = 3
_TOP = 4
_COMM_LINES = 4
_ASCEND_STEPS = 1
_PATH_PARTS = 4
# A smaller share of the window is not worth a line.
_TRIVIAL = 1_000
"""Parts of a path below 1/`_TRIVIAL` of it are not shown."""
_NOTABLE_RIVAL = 0.05
_HOST_LINES = 2
_NAME_AT_LEAST = 24


def render_text(report: Report, console: Console, *, written: Sequence[str] = (), tell: Tell = say) -> None:
    """Draw the report on `console`; `written` names the files with the whole report, if any were written.

    `tell` translates the texts into the reader's language.
    """
    screen = Screen(console, tell=tell)
    if not computes_on_host(report):
        _coverage(screen, report)
    screen.line(screen.say(report.verdict.message), style="bold", hang=0, most=8)
    if report.rows(RecordedSum) and not report.steps:
        draw_sums(screen, report)
        _notes(screen, report)
        _written(screen, written)
        return
    draw_tree(screen, report)
    draw_plan(screen, report)
    draw_code(screen, report)
    if computes_on_host(report):
        _path(screen, report)
    else:
        draw_split(screen, report)
        _path(screen, report)
        _compute(screen, report)
    for line in (*role_lines(report), *service_lines(report)):
        screen.line(line)
    _host(screen, report)
    _communication(screen, report)
    _ascend(screen, report)
    _losses(screen, report)
    screen.gap()
    if computes_on_host(report):
        _top(screen, "Top operators", report.rows(OperatorTop))
    else:
        _top(screen, "Top kernels", report.rows(KernelTop))
    if report.rows(CommunicationTop) or not computes_on_host(report):
        _top(screen, "Top communication", report.rows(CommunicationTop))
    _notes(screen, report)
    _written(screen, written)


def _written(screen: Screen, written: Sequence[str]) -> None:
    """Name the files with the whole report."""
    if written:
        screen.gap()
        screen.line(f"All of it: {', '.join(written)}", style="dim")


def _coverage(screen: Screen, report: Report) -> None:
    sentences = report.coverage.missing
    for sentence in sentences[:_WARNINGS]:
        screen.line(f"{screen.say('Coverage')}: {screen.say(sentence)}", style="bold yellow", most=2)
    if len(sentences) > _WARNINGS:
        screen.line(f"Coverage: {len(sentences) - _WARNINGS} more gaps, see the report", style="bold yellow")
    unknown = [row for row in report.coverage.files if row.state == "not known"]
    if unknown:
        count = sum(row.count for row in unknown)
        named = ", ".join(dict.fromkeys(screen.say(row.why or row.name) for row in unknown))
        screen.line(f"Files: {count} of {sum(row.count for row in report.coverage.files)} not read: {named}", most=2)


def _path(screen: Screen, report: Report) -> None:
    """Draw the verdict's critical path in one or two lines: the parts with most of its time."""
    if not report.paths:
        return
    path = report.paths[0]
    screen.gap()
    screen.line(("Critical path", "bold"), f" ({place_of_row(path.rank, path.step)}; what it could not end without)")
    screen.items([*_path_items(screen, path, _PATH_PARTS), *_rival(screen, path)], indent=2)


def _compute(screen: Screen, report: Report) -> None:
    """Draw how well the device computes, if notable."""
    items = compute_items(report)
    if items:
        screen.line(("Compute", "bold"), f"  {'; '.join(items)}", most=2)


def _path_items(screen: Screen, path: StepPath, most: int) -> list[list[Piece]]:
    shown = [part for part in path.parts[:most] if part.ns * _TRIVIAL >= path.window_ns]
    items: list[list[Piece]] = [
        [f"{screen.shorten(path_part(path, part), 36)} {duration(part.ns)} {share(part.ns, path.window_ns)}"]
        for part in shown
    ]
    rest = sum(part.ns for part in path.parts[len(shown) :])
    if rest * _TRIVIAL >= path.window_ns or (rest and not shown):
        items.append([f"{counted(len(path.parts) - len(shown), 'smaller part')} {duration(rest)}"])
    return items


def _rival(screen: Screen, path: StepPath) -> list[list[Piece]]:
    """The work that becomes critical first when the path is shortened, if notable."""
    return [
        [f"close behind: {screen.shorten(f'{row.component} on {row.where}', 36)} {duration(row.ns)}"]
        for row in path.near_critical[:1]
        if row.ns >= _NOTABLE_RIVAL * path.window_ns
    ]


def _host(screen: Screen, report: Report) -> None:
    """Draw what the host lost of the step, if notable."""
    for title, text in host_lines(report)[:_HOST_LINES]:
        screen.line((title, "bold"), "  ", screen.shorten(text, screen.width - len(title) - 2))


def _communication(screen: Screen, report: Report) -> None:
    sentences = notable(report)
    if not sentences:
        return
    screen.gap()
    screen.line(("Communication", "bold"), " (what is a notable share of the step)")
    for sentence in sentences[:_COMM_LINES]:
        screen.line(sentence, indent=2, most=2)


def _ascend(screen: Screen, report: Report) -> None:
    pairs = ascend_pairs(report)
    if not pairs:
        return
    screen.gap()
    for pair in pairs[:_ASCEND_STEPS]:
        _ascend_pair(screen, pair)
    if len(pairs) > _ASCEND_STEPS:
        screen.line(f"and {counted(len(pairs) - _ASCEND_STEPS, 'more step')} in the report", indent=2)
    for note in report.ascend_notes:
        screen.line(screen.say(note), style="dim", indent=2)


def _ascend_pair(screen: Screen, pair: AscendPair) -> None:
    row = pair.computed or pair.reported
    if row is None:
        return
    # Communication is the sum of exposed and overlapped time; a bubble exists only with pipeline parallelism.
    values = [
        (word, ns)
        for (word, _), ns in zip(ASCEND_FIELDS, ascend_values(row), strict=True)
        if ns is not None and word != "communication" and (ns or word != "bubble")
    ]
    screen.line(
        ("step_trace_time", "bold"),
        f" ({STEP_FILE}, us), {pair.place}, {row.source} by {_by(row.source)}:",
    )
    screen.items([[f"{word} {microseconds(ns)}"] for word, ns in values], indent=2)
    difference = difference_sentence(pair)
    if difference:
        screen.line(difference, indent=2, style="yellow")
    elif pair.computed and pair.reported:
        screen.line("the profiler's own file says the same, to the nanosecond", indent=2, style="dim")


def _by(source: str) -> str:
    return "Hermes" if source == "computed" else "the profiler"


def _losses(screen: Screen, report: Report) -> None:
    findings = [finding for finding in report.findings if finding.state == "stable"]
    screen.gap()
    if not findings:
        screen.line(("Explanations", "bold"), "  no rule explains a leaf of the tree")
        _preview(screen, report)
        return
    screen.line(
        ("Explanations", "bold"),
        "  (cost per step and share of it, by the leaf that they explain, in the order of the tree)",
    )
    for at, finding in enumerate(findings[:_FINDINGS], start=1):
        cost = f"{at}. {duration(finding.cost_ns)} {fraction(finding.share)}"
        screen.line((cost, "bold"), f"  {screen.say(finding.message)}", indent=2, hang=3, most=2)
        said = [
            screen.say(finding.about.message),
            f"gain {between(finding.gain.low_ns, finding.gain.high_ns)}",
            f"confidence {confidence(finding.confidence)}",
            screen.shorten(finding.code, 12),
            screen.shorten(_who(finding, report), screen.width - 20),
            *([f"explained by {', '.join(finding.explained_by)}"] if finding.explained_by else []),
        ]
        screen.items([[fact] for fact in said], indent=5, style="dim")
        if finding.actions and at <= _FINDINGS_WITH_CURE and not report.plan.actions:
            screen.line(("do: ", "green"), screen.say(finding.actions[0].title), indent=5, most=2)
    if len(findings) > _FINDINGS:
        screen.line(f"and {len(findings) - _FINDINGS} more in the report", indent=2)
    _preview(screen, report)


def _preview(screen: Screen, report: Report) -> None:
    """Draw a line for each finding of a preview rule."""
    findings = [finding for finding in report.findings if finding.state == "preview"]
    if findings:
        screen.line(("Preview", "bold"), "  (rules that are not trusted yet: look before you act)")
    for finding in findings[:_FINDINGS_WITH_CURE]:
        screen.line(f"{finding.code} {duration(finding.cost_ns)}  {screen.say(finding.message)}", indent=2, style="dim")


def _who(finding: Loss, report: Report) -> str:
    seen = report.coverage.ranks_seen
    who = "all collected ranks" if len(seen) > 1 and set(finding.ranks) == set(seen) else ranks(finding.ranks)
    if not finding.blames:
        return who
    more = f" and {len(finding.blames) - 2} more" if len(finding.blames) > 2 else ""
    return f"{who}, blames {', '.join(map(plain_kernel_name, finding.blames[:2]))}{more}"


def _top(screen: Screen, title: str, rows: Sequence[TopRow]) -> None:
    if not rows:
        screen.line((title, "bold"), f"  {NOT_MEASURED}")
        return
    more = f"; {_TOP} of {len(rows)}" if len(rows) > _TOP else ""
    screen.line((title, "bold"), f"  (total, share, count{more})")
    for row in rows[:_TOP]:
        numbers = f"{duration(row.total_ns):>8} {fraction(row.share):>6} {f'x{row.count}':>7}  "
        room = max(screen.width - len(numbers) - 3, _NAME_AT_LEAST)
        detail = f"  {row.detail}" if row.detail and row.detail != row.name else ""
        name = screen.shorten(plain_kernel_name(row.name), max(room - cell_len(detail), _NAME_AT_LEAST))
        left = room - cell_len(name)
        screen.line(f"  {numbers}", name, (screen.shorten(detail, left) if left > 4 else "", "dim"))


def _notes(screen: Screen, report: Report) -> None:
    notes = [note for note in report.diagnostics if note.level == "degraded"]
    if not notes:
        return
    screen.gap()
    screen.line((value_labels.degraded(n=len(notes)), "bold yellow"))
    for one in notes[:_NOTES]:
        place = [f"{one.where}: "] if one.where else []
        screen.line(
            *place,
            value_labels.note(message=one.message, lost=one.lost or None, hint=one.hint or None),
            indent=2,
            most=9,
        )
    if len(notes) > _NOTES:
        screen.line(value_labels.more_notes(n=len(notes) - _NOTES), indent=2)
