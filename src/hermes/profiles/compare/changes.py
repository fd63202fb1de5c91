"""Computes what changed between two runs: parts of the step, kernels and findings, each with its chance margin.

A run's time is the mean of its middle steps: ordered by window, without a quarter of the steps at each end. A slow
first step then does not count, and the parts of the window still add up to the window. A step's time is the mean over
its ranks.

The noise of a run's time is the standard error of that mean by the jackknife (Quenouille 1956, Tukey 1958). Stretches
of consecutive steps are left out one after the other, and tell how far the mean moves. Stretches are used since
neighbouring steps are alike. A change counts if it exceeds Student's t at 5 per cent. In a table of names, the 5 per
cent are divided by the number of names (Bonferroni): a long table then holds no chance results. With fewer than three
steps on either side no noise is computed. The margin does not include differences between two machines or two days:
only a repeated run shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import NormalDist

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.model.comparison import Comparison, FindingChange, SettingChange, TimeChange
from hermes.model.step_measures import StepSplit
from hermes.profiles.compare.run import ComparedFinding, ComparedRun
from hermes.profiles.compare.unshared_data import comparison_answer, unshared_data_notes

_CHANCE = 0.05
_STRETCHES = 64
_LEAST_STEPS = 3
TIMES = ("window_ns", "compute_ns", "exposed_comm_ns", "copy_exposed_ns", "free_ns")
"""The times of a step that are compared: the window and its parts."""

_Floats = NDArray[np.float64]


def compare(before: ComparedRun, after: ComparedRun, *, compared: int = 1) -> Comparison:
    """Everything that changed from the first run to the second; `compared` comparisons share the chance of error."""
    sides = _Side(before), _Side(after)
    step, *parts = (_of_windows(*sides, column, compared) for column in TIMES)
    names = {key: _of_names(*sides, key) for key in before.names}
    lacking = tuple(unshared_data_notes(before, after, parts, names))
    return Comparison(
        answer=comparison_answer(lacking, step),
        titles=(before.title, after.title),
        steps=(len(sides[0].steps), len(sides[1].steps)),
        ranks=(sides[0].ranks, sides[1].ranks),
        step=step,
        parts=tuple(parts),
        names=names,
        findings=_findings(before.findings, after.findings),
        settings=_settings(before.settings, after.settings),
        unmet=lacking,
    )


class _Side:
    """One side of a comparison: a run, its steps in order of time, and the weight of each step in each estimate."""

    def __init__(self, run: ComparedRun) -> None:
        self.run = run
        of_steps: dict[int | None, list[StepSplit]] = {}
        for split in sorted(run.marked, key=lambda split: split.start_ns):
            of_steps.setdefault(split.step, []).append(split)
        self.of_steps = of_steps
        self.steps = tuple(of_steps)
        self.ranks = len({split.rank for split in run.marked})

    def windows(self, column: str) -> _Floats | None:
        """A part of the window of each step in ns, the mean over its ranks; None if any step lacks the measurement."""
        found = []
        for own in self.of_steps.values():
            values = [getattr(split, column) for split in own]
            if any(value is None for value in values):
                return None
            found.append(sum(values) / len(values))
        return np.array(found) if found else None

    @cached_property
    def weights(self) -> _Floats:
        """The weight of each step: first in the estimate, then in each estimate without one stretch of steps."""
        count = len(self.steps)
        windows = self.windows("window_ns")
        assert windows is not None, "a window is always known"
        order = np.argsort(windows, kind="stable")
        stretches = np.array_split(np.arange(count), min(count, _STRETCHES))
        left_out = [np.array([], dtype=np.int64), *(stretches if count > 1 else [])]
        return np.array([_middle(order[~np.isin(order, gone)], count) for gone in left_out])

    def estimate(self, values: _Floats) -> tuple[_Floats, _Floats | None]:
        """The estimated time and its standard error for each row of values; no error with fewer than three steps."""
        every = values @ self.weights.T
        if len(self.steps) < _LEAST_STEPS:
            return every[..., 0], None
        without = every[..., 1:]
        count = without.shape[-1]
        spread = ((without - without.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
        return every[..., 0], np.sqrt(spread * (count - 1) / count)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the error: its number of stretches, less one."""
        return min(len(self.steps), _STRETCHES) - 1

    def table(self, key: str, names: pl.DataFrame, column: str) -> _Floats:
        """A column of a table of names, by name and step, as the mean over the ranks of a step; 0 where nothing ran."""
        rows = self.run.names[key]
        if self.steps != (None,):
            rows = rows.filter(pl.col("step").is_in([step for step in self.steps if step is not None]))
        place = {step: at for at, step in enumerate(self.steps)}
        joined = rows.join(names, on=["kind", "name"], how="inner")
        found = np.zeros((names.height, len(self.steps)))
        at = np.array([place[None if self.steps == (None,) else step] for step in joined["step"]], dtype=np.int64)
        np.add.at(found, (joined["place"].to_numpy(), at), joined[column].to_numpy())
        ranks: _Floats = np.array([len(own) for own in self.of_steps.values()], dtype=np.float64)
        return found / ranks


def _middle(order: NDArray[np.int64], count: int) -> _Floats:
    """Equal weights for the steps that remain of an order after a quarter is cut from each end."""
    cut = len(order) // 4
    chosen = order[cut : len(order) - cut]
    weights = np.zeros(count)
    weights[chosen] = 1 / len(chosen)
    return weights


def _of_windows(before: _Side, after: _Side, column: str, compared: int) -> TimeChange:
    sides = [(side, side.windows(column)) for side in (before, after)]
    found = [(None, None) if values is None else side.estimate(values) for side, values in sides]
    (old, old_error), (new, new_error) = found
    margin = _margins(before.freedom + after.freedom, compared, old_error, new_error)
    return TimeChange(
        kind="step", name=column.removesuffix("_ns"), before_ns=_whole(old), after_ns=_whole(new),
        margin_ns=_whole(margin),
    )  # fmt: skip


def _of_names(before: _Side, after: _Side, key: str) -> tuple[TimeChange, ...]:
    sides = (before, after)
    names = pl.concat([side.run.names[key].select("kind", "name") for side in sides]).unique().sort("kind", "name")
    names = names.with_row_index("place")
    if not names.height or not all(side.steps for side in sides):
        return ()
    (old, old_error), (new, new_error) = (side.estimate(side.table(key, names, "ns")) for side in sides)
    (old_calls, old_spread), (new_calls, new_spread) = (
        side.estimate(side.table(key, names, "calls")) for side in sides
    )
    freedom = before.freedom + after.freedom
    margins = _margins(freedom, names.height, old_error, new_error)
    of_calls = _margins(freedom, names.height, old_spread, new_spread)
    changes = [
        TimeChange(
            kind=kind, name=name, before_ns=round(old[at]), after_ns=round(new[at]),
            margin_ns=None if margins is None else _whole(margins[at]),
            before_calls=float(old_calls[at]), after_calls=float(new_calls[at]),
            calls_margin=None if of_calls is None else float(of_calls[at]),
        )
        for kind, name, at in names.select("kind", "name", "place").iter_rows()
    ]  # fmt: skip
    return tuple(sorted(changes, key=lambda one: (-abs(one.change_ns or 0), one.kind, one.name)))


def _margins(freedom: int, compared: int, old: _Floats | None, new: _Floats | None) -> _Floats | None:
    """The change in ns that chance may cause in each value; None if a run has too few steps."""
    return None if old is None or new is None else _limit(freedom, compared) * np.hypot(old, new)


def _whole(value: float | np.floating | _Floats | None) -> int | None:
    return None if value is None else round(float(value))


def _limit(freedom: int, compared: int) -> float:
    """Standard errors that chance exceeds once in twenty tables: Student's t for `compared` names at once.

    By the expansion of Abramowitz and Stegun 26.7.5 around the normal distribution.
    """
    z = NormalDist().inv_cdf(1 - _CHANCE / 2 / compared)
    n = float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92_160 * n**4)
    )


def _findings(before: Sequence[ComparedFinding], after: Sequence[ComparedFinding]) -> tuple[FindingChange, ...]:
    """Pair the findings of two runs: first findings alike in fault and blame, then findings alike in fault."""
    old, new = list(before), list(after)
    pairs: list[tuple[ComparedFinding | None, ComparedFinding | None]] = []
    for alike in (lambda one: (one.code, one.fault, one.blames), lambda one: (one.code, one.fault)):
        for found in list(new):
            same = next((other for other in old if alike(other) == alike(found)), None)
            if same:
                old.remove(same)
                new.remove(found)
                pairs.append((same, found))
    pairs += [(found, None) for found in old] + [(None, found) for found in new]
    changes = [_finding(*pair) for pair in pairs]
    return tuple(sorted(changes, key=lambda one: (-abs((one.after_ns or 0) - (one.before_ns or 0)), one.code)))


def _finding(old: ComparedFinding | None, new: ComparedFinding | None) -> FindingChange:
    one = new or old
    assert one is not None
    return FindingChange(
        state="stayed" if old and new else "came" if new else "went", code=one.code, fault=one.fault,
        message=one.message, before_ns=old.cost_ns if old else None, after_ns=new.cost_ns if new else None,
    )  # fmt: skip


def _settings(before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]) -> tuple[SettingChange, ...]:
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(
        SettingChange(source=source, name=name, before=before.get((source, name)), after=after.get((source, name)))
        for source, name in keys
    )
