"""Hermes from Python: analyse profiles, and look at what was found as tables. `docs/python.md` shows it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from functools import cached_property
from html import escape
from pathlib import Path

import polars as pl

from hermes.base.say import say as say
from hermes.model.comparison import Comparison
from hermes.model.finding import Loss
from hermes.model.leaf_time import JobLeaf
from hermes.model.report import Report
from hermes.profiles.api import Loaded, compared, engine_of, query
from hermes.profiles.api import analyze as analyze_loaded
from hermes.profiles.api import load as load_paths
from hermes.report.html import render_html
from hermes.report.report_json import to_json
from hermes.store.cache import Cache, default_root

_PLAIN = (str, int, float, bool)
_WIDE = 1 << 63


class Profiles:
    """Profiles that were read: their ranks, and their tables in SQL."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that could be read."""
        return tuple(rank.rank for rank in self.loaded.ranks)

    def sql(self, text: str) -> pl.DataFrame:
        """What a query gives, over the tables that `hermes schema` lists; raises `QueryError` for one that is wrong."""
        return query(self.loaded, text)

    def table(self, name: str) -> pl.DataFrame:
        """A table of all ranks."""
        return pl.concat([rank.table(name) for rank in self.loaded.ranks])

    def __repr__(self) -> str:
        return f"<Profiles of {len(self.ranks)} ranks>"


class Analysis:
    """What was found in profiles: the answer in a sentence, findings with what each costs, and every measure."""

    def __init__(self, profiles: Profiles, report: Report) -> None:
        self.profiles = profiles
        self.report = report

    @property
    def verdict(self) -> str:
        """What bounds the step, in one sentence."""
        return say(self.report.verdict.message)

    @property
    def findings(self) -> tuple[Loss, ...]:
        """What was found, the costliest first."""
        return self.report.findings

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Each step of each rank, split into compute, exposed communication, exposed copies and free time."""
        return _frame(self.report.steps)

    @cached_property
    def tree(self) -> pl.DataFrame:
        """Where the time of all steps went, along the path of waits: one row a leaf, operator and place.

        `rank` names a rank for the time that it spends in the leaf beyond what the others do. `share` is of all steps.
        docs/tree.md has the definitions.
        """
        return _frame(self.report.rows(JobLeaf))

    @cached_property
    def measures(self) -> Mapping[str, pl.DataFrame]:
        """Every kind of measure that has rows, as a table by the kind's name, such as `Fetches` or `OperatorCost`."""
        kinds = sorted(self.report.measures.kinds, key=lambda kind: kind.__name__)
        return {kind.__name__: _frame(self.report.rows(kind)) for kind in kinds}

    def sql(self, text: str) -> pl.DataFrame:
        """A query over the tables of the profiles."""
        return self.profiles.sql(text)

    def to_json(self) -> str:
        """The report as `hermes analyze --format json` prints it."""
        return to_json(self.report)

    def to_html(self) -> str:
        """The report as a page of its own, as `hermes analyze -o` writes it."""
        return render_html(self.report)

    def __repr__(self) -> str:
        return f"<Analysis: {self.verdict}>"

    def _repr_html_(self) -> str:
        """The verdict and the findings, for a notebook; all text of profiles is escaped."""
        rows = "".join(
            f"<tr><td>{escape(one.code)}</td><td>{escape(say(one.message))}</td>"
            f"<td>{one.cost_ns / 1e6:.3f} ms</td></tr>"
            for one in self.findings
        )
        table = f"<table><tr><th>code</th><th>finding</th><th>cost a step</th></tr>{rows}</table>" if rows else ""
        return f"<p><b>{escape(self.verdict)}</b></p>{table}"


def load(*paths: str | Path, capture: str = "", engine: str = "serial", jobs: int | None = None) -> Profiles:
    """Read profiles: folders, files, or URLs such as `s3://bucket/job`; what was read before comes from the cache.

    Raises `InputError` when no rank can be read.
    """
    with engine_of(engine, jobs) as chosen:
        return Profiles(load_paths(_places(paths), _cache(), capture=capture, engine=chosen))


def analyze(*paths: str | Path, capture: str = "", engine: str = "", jobs: int | None = None) -> Analysis:
    """Analyse profiles of one job.

    `engine` is `serial`, `processes` (what is taken from four ranks on), `ray` or `ray://host:port`; `jobs` how many
    processes. Raises `InputError` when no rank can be read.
    """
    with engine_of(engine, jobs) as chosen:
        loaded = load_paths(_places(paths), _cache(), capture=capture, engine=chosen)
        return Analysis(Profiles(loaded), analyze_loaded(loaded, engine=chosen))


def compare(before: Analysis, after: Analysis) -> Comparison:
    """What changed from one analysed job to another."""
    first, second = ((one.profiles.loaded, one.report) for one in (before, after))
    return compared(first, second)


def _places(paths: tuple[str | Path, ...]) -> list[str | Path]:
    return [path if isinstance(path, str) and "://" in path else Path(path) for path in paths]


def _cache() -> Cache:
    return Cache(default_root(os.environ, Path.home()))


def _frame(rows: tuple[object, ...]) -> pl.DataFrame:
    """Rows as a table; a column that is no number, text, or list of such is JSON."""
    told = [
        {name: value.value if isinstance(value, Enum) else value for name, value in asdict(row).items()}  # type: ignore[call-overload]
        for row in rows
    ]
    return pl.DataFrame([_column(name, [row[name] for row in told]) for name in (told[0] if told else ())])


def _column(name: str, values: list[object]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    wide = any(type(value) is int and abs(value) >= _WIDE for value in values)
    if (kinds <= {int, float} and len(kinds) == 2) or wide:
        return pl.Series(name, [None if value is None else float(str(value)) for value in values])
    if kinds <= {tuple, list} and kinds:
        parts = {type(part) for value in values if isinstance(value, (tuple, list)) for part in value}
        if len(parts) < 2 and parts <= set(_PLAIN):
            return pl.Series(name, [None if value is None else list(value) for value in values])  # type: ignore[call-overload]
    elif len(kinds) < 2 and kinds <= set(_PLAIN):
        return pl.Series(name, values)
    return pl.Series(name, [None if value is None else json.dumps(value, default=str) for value in values])
