"""Draws the parts of the step on a terminal: a bar for each rank, with the numbers of the time tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from hermes.model.report import Report
from hermes.model.step_measures import StepSplit
from hermes.report.format import NOT_MEASURED, counted, duration, share
from hermes.report.report_rows import COMPONENTS, WINDOW_KINDS, extremes, place_of_row, step_components, typical
from hermes.report.terminal_lines import Piece, Screen

_RANKS_TWO_LINES = 3
_RANKS_ONE_LINE = 8
_WIDE = 96
_PARTS = ("compute_ns", "exposed_comm_ns", "copy_exposed_ns", "free_ns")
_STYLES = {"compute": "blue", "comm": "yellow", "copy": "cyan", "free": "bright_black"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the drawing: a label and the step whose bar is drawn."""

    label: str
    step: StepSplit


def _mean_steps(report: Report) -> list[StepSplit]:
    """The mean step of each rank; its typical step if no device work was recorded."""
    steps, made = report.measures.job.steps, []
    for split in typical(report.steps):
        own = steps.of(split.rank)
        if split.compute_ns is not None:
            compute, comm, copy, free = (sum(getattr(one, name) or 0 for one in own) // len(own) for name in _PARTS)
            split = replace(
                split, step=None, window_ns=compute + comm + copy + free, compute_ns=compute, exposed_comm_ns=comm,
                copy_exposed_ns=copy, free_ns=free,
            )  # fmt: skip
        made.append(split)
    return made


def draw_split(screen: Screen, report: Report) -> None:
    """Draw a bar for each rank, or, of many ranks, for the fastest, the median and the slowest."""
    screen.gap()
    steps = report.steps
    if not steps:
        screen.line("Step split: not measured (no step and no device task was found)")
        return
    chosen = _mean_steps(report)
    wide = screen.width >= _WIDE
    if len(chosen) <= (_RANKS_ONE_LINE if wide else _RANKS_TWO_LINES):
        labelled = [("", step) for step in chosen]
    else:
        labelled = [(f"{word}: ", step) for word, step in extremes(chosen)]
    same = len({step.step for step in chosen}) == 1
    rows = [_Row(label=f"{word}{place_of_row(s.rank, None if same else s.step)}", step=s) for word, s in labelled]
    _split_heading(screen, steps, chosen)
    label = max(cell_len(row.label) for row in rows)
    longest = max(row.step.window_ns for row in rows)
    if wide and len(rows) > _RANKS_TWO_LINES:
        _one_line_rows(screen, rows, label, longest)
    else:
        _two_line_rows(screen, rows, label, longest)


def _split_heading(screen: Screen, steps: Sequence[StepSplit], chosen: Sequence[StepSplit]) -> None:
    if all(step.step is None for step in chosen):
        screen.line(
            ("Step split", "bold"), " (the mean step of each rank, as in the tree; comm and copy: the exposed part)"
        )
        return
    kinds = [words for kind, words in WINDOW_KINDS if any(step.window_kind == kind for step in chosen)]
    numbers = {step.step for step in chosen}
    which = f"step {chosen[0].step}, " if len(numbers) == 1 and chosen[0].step is not None else ""
    several = f", of {counted(len(steps), 'step')} each rank's median" if len(steps) > len(chosen) else ""
    screen.line(
        ("Step split", "bold"),
        f" ({which}{' or '.join(kinds)}{several}; comm and copy: the exposed part)",
    )


def _two_line_rows(screen: Screen, rows: Iterable[_Row], label: int, longest: int) -> None:
    room = max(screen.width - label - 14, 10)
    for row in rows:
        measured = step_components(row.step)
        head = f"  {row.label:<{label}}  {duration(row.step.window_ns):>8}  "
        if measured is None:
            screen.line(head, (f"split {NOT_MEASURED}", "dim"))
            continue
        screen.line(head, *_bar(screen, measured, row.step.window_ns, longest, room))
        screen.items(
            [
                [(screen.glyphs[key], _STYLES[key]), f" {key} {duration(ns)} {share(ns, row.step.window_ns)}"]
                for (key, _), ns in zip(COMPONENTS, measured, strict=True)
            ],
            indent=4,
        )


def _one_line_rows(screen: Screen, rows: Iterable[_Row], label: int, longest: int) -> None:
    room = max(screen.width - label - 12 - 4 * 16, 8)
    heads: list[Piece] = [f"  {'':<{label}}  {'window':>8}  {'':<{room}}"]
    for key, _ in COMPONENTS:
        heads += [" " * (14 - len(key)), (screen.glyphs[key], _STYLES[key]), f" {key}"]
    screen.line(*heads)
    for row in rows:
        measured = step_components(row.step)
        head = f"  {row.label:<{label}}  {duration(row.step.window_ns):>8}  "
        if measured is None:
            screen.line(head, (f"split {NOT_MEASURED}", "dim"))
            continue
        bar = _bar(screen, measured, row.step.window_ns, longest, room)
        pad = " " * (room - sum(len(text) for text, _ in bar))
        cells = "".join(f"{duration(ns):>9}{share(ns, row.step.window_ns):>7}" for ns in measured)
        screen.line(head, *bar, pad + cells)


def _bar(screen: Screen, measured: Sequence[int], window_ns: int, longest: int, room: int) -> list[tuple[str, str]]:
    """The glyph runs of a bar, which add up to the window's length on the scale of `longest`."""
    length = max(room * window_ns // longest, 1) if longest else 0
    done = drawn = 0
    runs = []
    for (key, _), ns in zip(COMPONENTS, measured, strict=True):
        done += ns
        upto = (2 * length * done + window_ns) // (2 * window_ns) if window_ns else 0
        runs.append((screen.glyphs[key] * (upto - drawn), _STYLES[key]))
        drawn = upto
    return runs
