"""The measures that symptoms of cases name, read from the document `hermes.report/1`.

`knowledge/measure_names.py` says what each measure means and from which fields it comes; here is how. A symptom speaks
of what it fits worst, so a measure gives all its values: one a rank, group, link, …; none where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from statistics import median_low

from hermes.knowledge.cases.predicate import UNSET, Predicate

Row = Mapping[str, object]
Value = float | str

# Below these sizes a transfer does not reach the speed of its link: msprof-analyze, rule of packets.
_SMALL_BYTES = {"SDMA": 16_000_000, "RDMA": 1_000_000}
_WINDOW = "window"
_STEPS = "steps of the capture"
_LONGEST = "window of the slowest rank"


class Facts:
    """What a report measured; every answer may be empty, which is "not measured" and not zero."""

    def __init__(self, document: Mapping[str, object]) -> None:
        """`document` is a report as `hermes.report.document` makes it."""
        self._document = document

    def holds(self, predicate: Predicate) -> bool | None:
        """Whether a symptom holds of any rank, group, link, …; None where nothing of it was measured."""
        said = [predicate.holds(value) for value in self.values(predicate.measure, predicate.of)]
        return any(said) if said else None

    def values(self, measure: str, of: str = "") -> list[Value]:
        """All values of a measure, `of` what stands in its brackets. KeyError for a measure that is none."""
        return list(_FORMS[measure](self, of))

    def rows(self, path: str) -> list[Row]:
        """The rows of a table by its path in the document, such as `host.events`."""
        found: object = self._document
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        rows = found if isinstance(found, Sequence) else [found]
        return [row for row in rows if isinstance(row, Mapping)]

    @cached_property
    def typical(self) -> dict[object, Row]:
        """Of each rank its step of median window."""
        return {rank: _middle(own) for rank, own in self._by_rank.items()}

    @cached_property
    def steps(self) -> int:
        """Steps of the rank with most of them."""
        return max(map(len, self._by_rank.values()), default=0)

    @cached_property
    def _by_rank(self) -> dict[object, list[Row]]:
        found: dict[object, list[Row]] = {}
        for row in self.rows("steps"):
            found.setdefault(row["rank"], []).append(row)
        return found

    def variation(self) -> Iterator[float]:
        """Longest step over the median step, by rank."""
        for own in self._by_rank.values():
            windows = [_number(row, "window_ms") or 0.0 for row in own]
            if len(windows) > 1 and median_low(windows) > 0:
                yield max(windows) / median_low(windows)

    def number(self, row: Row, name: str) -> float | None:
        """A column of a row, or what it is held against: the window of its rank's typical step, the steps."""
        if name == _STEPS:
            return float(self.steps)
        if name == _LONGEST:
            return max((_number(step, "window_ms") or 0.0 for step in self.typical.values()), default=None)
        if name == _WINDOW:
            step = self.typical.get(row.get("rank"))
            return None if step is None else _number(step, "window_ms")
        return _number(row, name)


Form = Callable[[Facts, str], Iterator[Value]]


def _middle(rows: Sequence[Row]) -> Row:
    ordered = sorted(rows, key=lambda row: _number(row, "window_ms") or 0.0)
    return ordered[(len(ordered) - 1) // 2]


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    """A column over the product of others, by row; `key` is the column that the brackets choose by.

    With `total`, rows of one rank are added up first. `absent` is the value where the table has rows and none of them
    is chosen: what was looked for and not found is zero where such rows are only written when there is something.
    """

    table: str
    over: str
    under: tuple[str, ...] = ()
    less: str = ""
    key: str = ""
    total: bool = False
    absent: float | None = None

    def __call__(self, facts: Facts, of: str) -> Iterator[Value]:
        rows = facts.rows(self.table)
        chosen = [row for row in rows if not self.key or of == "any" or fnmatchcase(str(row.get(self.key)), of)]
        values = [value for row in chosen if (value := self._value(facts, row)) is not None]
        if self.total:
            sums: dict[object, float] = {}
            for row in chosen:
                sums[row.get("rank")] = sums.get(row.get("rank"), 0.0) + (self._value(facts, row) or 0.0)
            values = list(sums.values())
        if rows and not chosen and self.absent is not None:
            values = [self.absent]
        yield from values

    def _value(self, facts: Facts, row: Row) -> float | None:
        value = facts.number(row, self.over)
        if value is None:
            return None
        value -= (facts.number(row, self.less) or 0.0) if self.less else 0.0
        for name in self.under:
            under = facts.number(row, name)
            if not under:
                return None
            value /= under
        return value


def _typical(over: str) -> Form:
    """A column of each rank's typical step over its window."""

    def values(facts: Facts, of: str) -> Iterator[Value]:
        for row in facts.typical.values():
            part, window = _number(row, over), _number(row, "window_ms")
            if part is not None and window:
                yield part / window

    return values


def _mfu(facts: Facts, of: str) -> Iterator[Value]:
    yield from (value for row in facts.typical.values() if (value := _number(row, "mfu")) is not None)


def _text(table: str, column: str) -> Form:
    def values(facts: Facts, of: str) -> Iterator[Value]:
        yield from (str(row[column]) for row in facts.rows(table) if row.get(column) is not None)

    return values


def _first_text(table: str, column: str) -> Form:
    """A text of the first row that has it: the longest."""

    def values(facts: Facts, of: str) -> Iterator[Value]:
        yield from [str(row[column]) for row in facts.rows(table) if row.get(column)][:1]

    return values


def _link_text(facts: Facts, of: str) -> Iterator[Value]:
    for row in facts.rows("communication.kinds"):
        if of in ("any", row.get("kind")) and row.get("transport"):
            yield str(row["transport"])


def _path(facts: Facts, of: str) -> Iterator[Value]:
    rows = facts.rows("critical_path")
    first = [row for row in rows if all(row.get(name) == rows[0].get(name) for name in ("rank", "step", "across"))]
    shares = [
        _number(row, "share") or 0.0
        for row in first
        if row.get("stretch") == "window" and (row.get("component"), row.get("reason")) == ("host", of)
    ]
    if rows:
        yield sum(shares)


def _host(facts: Facts, of: str) -> Iterator[Value]:
    for step in facts.rows("host.steps"):
        parts = step.get("parts")
        whole = _number(step, "host_ms")
        if isinstance(parts, Sequence) and whole:
            own = [part for part in parts if isinstance(part, Mapping) and part.get("reason") == of]
            yield sum(_number(part, "ms") or 0.0 for part in own) / whole


def _small(facts: Facts, of: str) -> Iterator[Value]:
    rows = [
        row
        for row in facts.rows("communication.packets")
        if row.get("transport") != "LOCAL" and (row.get("transport") == "RDMA") is (of == "RDMA")
    ]
    total = sum(_number(row, "bytes") or 0.0 for row in rows)
    if total:
        small = [row for row in rows if 2 * (_number(row, "least_bytes") or 0.0) <= _SMALL_BYTES[of]]
        yield sum(_number(row, "bytes") or 0.0 for row in small) / total


def _setting(facts: Facts, of: str) -> Iterator[Value]:
    for row in facts.rows("host.settings"):
        if not fnmatchcase(str(row.get("name")), of):
            continue
        values = row.get("values")
        for one in values if isinstance(values, Sequence) else ():
            if isinstance(one, Mapping) and "value" in one:
                yield UNSET if one["value"] is None else str(one["value"])


def _differs(facts: Facts, of: str) -> Iterator[Value]:
    for row in facts.rows("host.settings"):
        if fnmatchcase(str(row.get("name")), of):
            yield str(row.get("differs")).lower()


def _spread(facts: Facts, of: str) -> Iterator[Value]:
    for row in facts.rows("rank_matrix.metrics"):
        middle = _number(row, "median")
        if row.get("name") == of and middle and (_number(row, "ranks") or 0) > 1:
            yield ((_number(row, "most") or 0.0) - (_number(row, "least") or 0.0)) / middle


def _one(path: str, column: str) -> Form:
    """A field of an object that is null where there is no such thing: then the measure is zero."""

    def values(facts: Facts, of: str) -> Iterator[Value]:
        rows = facts.rows(path)
        value = _number(rows[0], column) if rows else 0.0
        if value is not None and facts.typical:
            yield value

    return values


_FETCH, _KIND, _COMPUTE = "input.fetches", "communication.kinds", "compute.steps"
_KERNELS = ("kernels_ms",)


def _fetch(over: str, *under: str) -> Form:
    return _Ratio(table=_FETCH, over=over, under=under)


def _kind(over: str, *under: str, less: str = "", absent: float | None = None) -> Form:
    return _Ratio(table=_KIND, over=over, under=under, less=less, key="kind", absent=absent)


def _compute(over: str) -> Form:
    return _Ratio(table=_COMPUTE, over=over, under=_KERNELS)


_FORMS: dict[str, Form] = {
    "step.variation": lambda facts, of: facts.variation(),
    "compute.share": _typical("compute_ms"),
    "comm.exposed_share": _typical("exposed_comm_ms"),
    "copy.exposed_share": _typical("copy_exposed_ms"),
    "free.share": _typical("free_ms"),
    "free.share_of": _Ratio(table="free_time", over="ms", under=(_WINDOW,), key="reason", total=True, absent=0.0),
    "preparing.share": _typical("preparing_ms"),
    "path.host_share": _path,
    "wait.share": _Ratio(table="rank_waits", over="total_ms", under=(_STEPS, _WINDOW), total=True),
    "kernel.share": _Ratio(table="top.kernels", over="share", key="name", absent=0.0),
    "host_call.share": _Ratio(table="top.host_calls", over="share", key="name", absent=0.0),
    "input.wait_share": _fetch("device_free_ms", "steps", _WINDOW),
    "input.variation": _fetch("longest_ms", "median_ms"),
    "input.long_share": _fetch("long", "fetches"),
    "input.loader": _text(_FETCH, "kind"),
    "input.early_share": _fetch("early", "fetches"),
    "input.epoch_share": _fetch("epoch_ms", "steps", _WINDOW),
    "input.reading_share": _fetch("reading_ms", "wait_ms"),
    "input.processing_share": _fetch("processing_ms", "wait_ms"),
    "input.queue_empty": _Ratio(table="input.queues", over="empty", key="queue"),
    "input.supply": _Ratio(table="input.rates", over="supply_per_s", under=("demand_per_s",)),
    "input.copy_supply": _Ratio(table="input.rates", over="copies_per_s", under=("demand_per_s",)),
    "input.workers_over_cores": _Ratio(table="input.rates", over="workers_needed", under=("cores_free",)),
    "input.copy_share": _Ratio(table="input.copies", over="exposed_ms", under=(_WINDOW,), total=True),
    "input.pageable_share": _Ratio(table="input.copies", over="pageable_bytes", under=("bytes",)),
    "input.copies": _Ratio(table="input.copies", over="copies"),
    "input.copy_size": _Ratio(table="input.copies", over="bytes", under=("copies",)),
    "host.share": _host,
    "dispatch.ratio": _Ratio(table="host.dispatch", over="ratio"),
    "dispatch.tasks": _Ratio(table="host.dispatch", over="tasks"),
    "dispatch.small_share": _Ratio(table="host.dispatch", over="small", under=("linked",)),
    "dispatch.late_share": _Ratio(table="host.dispatch", over="late", under=("linked",)),
    "dispatch.task_queue": _text("host.dispatch", "task_queue"),
    "queue.empty": _Ratio(table="host.queue_depth", over="empty"),
    "sync.share": _Ratio(table="host.sync_calls", over="wait_ms", under=(_WINDOW,), total=True),
    "sync.calls": _Ratio(table="host.sync_calls", over="calls", total=True),
    "sync.refill_share": _Ratio(table="host.sync_calls", over="refill_ms", under=(_WINDOW,), total=True),
    "event.share": _Ratio(table="host.events", over="ms", under=("steps", _WINDOW), key="what"),
    "event.longest": _Ratio(table="host.events", over="longest_ms", key="what"),
    "event.steps_share": _Ratio(table="host.events", over="steps_hit", under=("steps",), key="what"),
    "shapes.dynamic_share": _Ratio(table="host.shapes", over="dynamic", under=("known",)),
    "shapes.new_share": _Ratio(table="host.shapes", over="new", under=("distinct",)),
    "backward.unused_share": _Ratio(table="host.unused_gradients", over="unused", under=("gradients",)),
    "backward.dropped_share": _Ratio(table="host.unused_gradients", over="dropped", under=("gradients",)),
    "cores.usage": _Ratio(table="host.contention", over="usage"),
    "cores.busiest": _Ratio(table="host.contention", over="busiest"),
    "setting": _setting,
    "setting.differs": _differs,
    "compute.mfu": _mfu,
    "compute.class_share": _Ratio(table="compute.classes", over="share", key="class", absent=0.0),
    "compute.roof_share": _Ratio(table="compute.classes", over="roof_share", key="class"),
    "compute.limit": _first_text("compute.operators", "limit"),
    "compute.precision": _first_text("compute.operators", "precision"),
    "compute.ai_cpu_share": _compute("ai_cpu_ms"),
    "compute.cast_share": _compute("cast_ms"),
    "compute.transpose_share": _compute("transpose_ms"),
    "compute.conversion_share": _compute("conversion_ms"),
    "compute.frequency_share": _compute("frequency_ms"),
    "compute.blocks_share": _compute("blocks_ms"),
    "compute.pipe_share": _compute("pipe_ms"),
    "compute.unaligned_share": _compute("unaligned_ms"),
    "compute.recompute_share": _compute("recompute_ms"),
    "compute.over_peers_share": _compute("over_peers_ms"),
    "comm.waste": _kind("waste"),
    "comm.dimension_share": _kind("transfer_ms", "ranks", _STEPS, _LONGEST, less="hidden_ms", absent=0.0),
    "comm.hidden_share": _kind("hidden_ms", "transfer_ms"),
    "comm.of_link": _kind("of_link"),
    "comm.operations": _kind("operations", "groups", _STEPS, absent=0.0),
    "comm.size": _kind("bytes", "operations"),
    "comm.idle_share": _kind("idle_ms", "elapse_ms"),
    "comm.group_size": _kind("size", absent=0.0),
    "comm.transport": _link_text,
    "comm.fixed_share": _Ratio(table="communication.fits", over="fixed_share"),
    "comm.small_share": _small,
    "comm.unaligned_share": _Ratio(table="communication.alignment", over="unaligned_time_ms", under=("time_ms",)),
    "comm.stalled": _Ratio(table="communication.stalls", over="stalled"),
    "comm.longest_stall": _Ratio(table="communication.stalls", over="longest_ms"),
    "comm.contention": _Ratio(table="communication.contention", over="slowdown", key="kind"),
    "comm.last_share": _Ratio(table="communication.slow_ranks", over="blocks_last", under=("blocks",)),
    "comm.link_ratio": _Ratio(table="communication.link_pairs", over="ratio"),
    "pipeline.bubble": _one("pipeline", "bubble_share"),
    "pipeline.structural": _one("pipeline", "structural_share"),
    "pipeline.imbalance": _one("pipeline", "imbalance"),
    "balance.imbalance": _Ratio(table="balance", over="imbalance", key="what"),
    "balance.correlation": _Ratio(table="balance", over="correlation", key="what"),
    "ranks.spread": _spread,
    "memory.fragmentation": _Ratio(table="memory.peaks", over="fragmentation"),
    "memory.reserved": _Ratio(table="memory.peaks", over="reserved_bytes"),
    "memory.allocator_share": _Ratio(table="memory.allocator", over="ms", under=("steps", _WINDOW)),
    "memory.growth": _Ratio(table="memory.growth", over="bytes_per_step"),
    "memory.growth_fit": _Ratio(table="memory.growth", over="r2"),
    "memory.recompute_share": _Ratio(table="memory.recompute", over="device_ms", under=("compute_ms",)),
    "memory.holder_share": _Ratio(table="memory.holders", over="share", key="operator"),
}
"""How each measure is read; a test holds the names equal to those of `knowledge/measure_names.py`."""
