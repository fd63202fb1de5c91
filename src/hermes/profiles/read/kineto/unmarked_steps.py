"""Finds steps of a trace without step marks: by marks of inference servers, else by the period of its launches.

The work of a step is launched in the same order in each step. The layers inside a step repeat in the same way. A step
is recognised by an exchange with the host, once in every period: a batch, a loss, a token. Without such an exchange, no
steps are found.
"""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.intervals import Ints
from hermes.model.tables.unmarked_steps import FOUND, WHOLE
from hermes.profiles.read.query import fetched

LAUNCHED = "launched"
"""The kind of a launch whose call was not recorded, as in traces of the old profiler."""
# vLLM marks `execute_context_1(888_788544)_generation_0(0)` (requests and tokens), SGLang `step[DECODE bs=32]`.
_MARK = r"^execute_(\d+_)?context_\d+\(.*_generation_\d+\(|^step\[[A-Z_]+"
_MOVED = "HtoD|DtoH|HostToDevice|DeviceToHost"
_FEWEST_STEPS = 3
_SHORTEST = 8
_MOST_TASKS = 1 << 17
_ALIKE = 0.95
# The number of random signs per name: differing names cancel out, with an error of one part in its square root.
_SIGNS = 24
_ROUGH = 0.8
_MOST_TRIED = 64
_MOST_OF_IT = 0.5
_AS_GOOD = 0.005
_SCHEMA = {"step": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64, "name": pl.String}

_Mask = NDArray[np.bool_]


def found_steps(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """The rows of the table `step`; empty if nothing tells a step, one step for the capture without a device."""
    marks = fetched(
        con,
        "SELECT row_number() OVER (ORDER BY ts_ns) AS step, ts_ns AS start_ns, dur_ns, name FROM event "
        f"WHERE what = 'mark' AND regexp_matches(name, '{_MARK}') ORDER BY ts_ns",
    )
    if marks.height >= _FEWEST_STEPS:
        # A server marks the same step on several threads, or nested: marks that follow each other count.
        end = (pl.col("start_ns") + pl.col("dur_ns")).cum_max().shift(1)
        marks = marks.filter(end.is_null() | (pl.col("start_ns") >= end))
    if marks.height >= _FEWEST_STEPS:
        return marks.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("step"))
    tasks = fetched(
        con,
        "WITH call AS (SELECT correlation, min(ts_ns) AS launch_ns FROM event "
        f"WHERE what IN ('runtime', 'driver', '{LAUNCHED}') AND correlation IS NOT NULL GROUP BY correlation) "
        f"SELECT launch_ns, name, what = 'memcpy' AND regexp_matches(name, '{_MOVED}') AS moved "
        "FROM event JOIN call USING (correlation) WHERE what IN ('kernel', 'memcpy', 'memset') "
        f"ORDER BY launch_ns, ts_ns, name LIMIT {_MOST_TASKS}",
    )
    if not tasks.height:
        return _whole(con)
    bounds = boundaries(
        tasks["name"].rank("dense").to_numpy().astype(np.int64),
        tasks["launch_ns"].to_numpy(),
        tasks["moved"].to_numpy().astype(np.bool_),
    )
    launched = tasks["launch_ns"].to_numpy()
    moments = launched[bounds]
    if len(moments) <= _FEWEST_STEPS or moments[-1] - moments[0] < _MOST_OF_IT * (launched[-1] - launched[0]):
        # If the found steps cover less than half of the launches, the capture is used as a whole.
        return pl.DataFrame(schema=_SCHEMA)
    lengths = np.diff(moments)
    numbers = range(1, len(lengths) + 1)
    return pl.DataFrame(
        {"step": numbers, "start_ns": moments[:-1], "dur_ns": lengths, "name": [f"{FOUND}#{n}" for n in numbers]},
        schema=_SCHEMA,
    )


def _whole(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """All host work as one step: without a device nothing else gives a capture a length."""
    whole = fetched(
        con,
        "SELECT 1::BIGINT AS step, min(ts_ns) AS start_ns, max(ts_ns + dur_ns) - min(ts_ns) AS dur_ns, "
        f"'{WHOLE}' AS name FROM event WHERE ph = 'X' AND what <> 'ignored' "
        "HAVING bool_or(what = 'op') AND NOT bool_or(what IN ('kernel', 'memcpy', 'memset', 'runtime', 'driver'))",
    )
    return whole


def boundaries(names: Ints, launched: Ints, moved: _Mask) -> Ints:
    """The indices of the tasks with which a step's period begins; empty if there is no such period.

    `names` are numbers of the tasks' names in launch order; `moved` says which tasks copy between host and device.
    """
    period = _period(names, moved)
    if period is None:
        return np.empty(0, dtype=np.int64)
    gaps = np.diff(launched, prepend=launched[:1])
    count = len(names)
    # The host pauses longest between two steps.
    first = min(range(period), key=lambda phase: (-float(np.median(gaps[count - 1 - phase :: -period])), phase))
    places = np.arange(count - 1 - first, -1, -period)[::-1]
    good = [
        bool(np.mean(names[one:other] == names[places[-2] : places[-1]]) >= _ALIKE)
        for one, other in itertools.pairwise(places)
    ]
    # Work before the period settles is warm-up.
    begins = len(good) - (good[::-1].index(False) if False in good else len(good))
    return places[begins:].astype(np.int64)


def _period(names: Ints, moved: _Mask) -> int | None:
    """The shortest period of the later launches that has a copy between host and device at the same place each time."""
    names, moved = names[len(names) // 4 :], moved[len(names) // 4 :]
    most = len(names) // _FEWEST_STEPS
    if most < _SHORTEST or not moved.any():
        return None
    rough = _correlation(names)[: most + 1]
    likely = np.flatnonzero(rough >= _ROUGH)
    likely = likely[likely >= _SHORTEST]
    # The most alike periods are tried, too, however long: layers that copy repeat less well than their steps.
    likely = np.unique(np.append(likely[:_MOST_TRIED], likely[np.argsort(-rough[likely], kind="stable")][:_MOST_TRIED]))
    alike = {
        period: float(np.mean(names[period:] == names[:-period]))
        for period in likely.tolist()
        if _once_each(moved, period)
    }
    best = max(alike.values(), default=0.0)
    good = [period for period, share in alike.items() if share >= max(_ALIKE, best - _AS_GOOD)]
    return min(good, default=None)


def _once_each(moved: _Mask, period: int) -> bool:
    """Whether every stretch of this length has a copy, at the same places."""
    whole = len(moved) // period * period
    folds = moved[len(moved) - whole :].reshape(-1, period)
    return bool(folds.any(axis=1).all()) and bool(np.mean(folds == folds[-1]) >= 1 - 0.5 / period)


def _correlation(names: Ints) -> NDArray[np.float64]:
    """For each distance, roughly the share of tasks that have the same name as the task that many places before."""
    count = len(names)
    size = 1 << (2 * count - 1).bit_length()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(int(names.max()) + 1, _SIGNS))
    found = np.zeros(count)
    for one in range(_SIGNS):
        wave = np.fft.rfft(signs[names, one], size)
        found += np.fft.irfft(wave * wave.conj(), size)[:count]
    return found / _SIGNS / np.arange(count, 0, -1)
