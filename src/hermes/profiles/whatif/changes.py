"""Defines the changes of a step that `hermes whatif` can replay: each has a text form, and scales nodes and edges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from hermes.base.closest_names import closest
from hermes.base.errors import InputError
from hermes.base.globs import literal_pattern
from hermes.base.intervals import Ints
from hermes.base.units import whole_number
from hermes.knowledge.host_work import LAUNCH, OPERATOR, PYTHON, REASONS
from hermes.knowledge.host_work import OUTSIDE as UNNAMED
from hermes.model.tables.collective_keys import BETWEEN_TWO
from hermes.profiles.measure.path.event_graph import DEVICE, LAUNCHED, ORDER, OUTSIDE, WAITED
from hermes.profiles.measure.path.graph import LONGEST_SWITCH_NS, UNDER_WAY_NS
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.step_event_graph import JobStep

OFF = -(2**60)
"""Lag of an edge that no longer delays its node."""
_STALLED = 10
"""The factor over the usual length of its kind on its rank from which a transfer has stalled (`analyze.transfers`)."""
# Time between two launches without a call is Python that launches work; a longer time may be anything.
_BETWEEN_NS = 200_000
_NEAREST = 5
"""How many existing ranks are suggested in place of a missing rank."""
_OF_TASKS = {"op": "compute", "comm": "comm", "copy": "copy"}
_SPEC = re.compile(r"(?P<what>[a-z]+):(?P<which>.+?)(=(?P<to>[^=]+))?")


@dataclass(slots=True)
class StepState:
    """The times of a step under change: durations and releases by node, lags and host work by reason by edge."""

    dur: Ints
    lag: Ints
    reason: np.ndarray
    release: Ints

    def free_the_order(self, job: JobStep) -> None:
        """Let device tasks overlap that ran one after the other, if nothing recorded keeps them apart."""
        self.lag[job.graph.kind == ORDER] = OFF

    @staticmethod
    def of(job: JobStep) -> StepState:
        """The state of a step as it was measured."""
        return StepState(
            job.graph.dur.copy(),
            job.graph.lag.copy(),
            job.reason.astype(np.float64),
            job.graph.release.copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """A change of a step: its text form, its meaning, and what it does to a state.

    `touches` says whether the step has what is changed. If not, `instead` returns changes to suggest, the closest
    first. `of_host`: only the host changes; the device does the same work, and each task takes as long.
    """

    spec: str
    title: str
    apply: Callable[[JobStep, StepState], None]
    touches: Callable[[JobStep], bool]
    instead: Callable[[JobStep], Sequence[str]] = lambda _: ()
    of_host: bool = False


def parse(spec: str) -> StepChange:
    """The change that a text means; raises `InputError` if the text means no change."""
    match = _SPEC.fullmatch(spec.strip())
    if match:
        what, which, to = match["what"], match["which"], match["to"]
        if what in _OF_TASKS and to is not None:
            return _tasks(what, which, _factor(spec, to))
        if what == "host" and to is not None:
            return _host(spec, which, _factor(spec, to))
        rank = whole_number(which or "")
        if what == "rank" and to == "median" and rank is not None:
            return _rank(rank)
        if what in _OF_RANK and to is not None and rank is not None:
            return _OF_RANK[what](rank, _factor(spec, to))
        if to is None and (what, which) in _PLAIN:
            return _PLAIN[(what, which)]
    raise InputError(messages.no_change(spec=repr(spec)), where="--set", hint=messages.DO_SUCH_AS)


def changes_of(job: JobStep, specs: Sequence[str]) -> list[StepChange]:
    """The changes that texts mean; raises `InputError` if a text means no change, or touches nothing in the step."""
    found = [parse(spec) for spec in specs]
    for change in found:
        if not change.touches(job):
            others = change.instead(job)
            hint = messages.ask_for(changes=others) if others else messages.NOTHING_ALIKE
            raise InputError(messages.matches_nothing(change=change.spec), where="--set", hint=hint)
    return found


def candidates(job: JobStep, *, most_types: int = 8, most_ranks: int = 16) -> Iterator[StepChange]:
    """The changes that are worth a replay in a step."""
    for place, reason in enumerate(REASONS):
        if job.reason[:, place].any():
            yield _host("", typed_reason(reason), 0.0)
    compute = job.component == "compute"
    totals = {kind: int(job.graph.dur[compute & (job.type == kind)].sum()) for kind in set(job.type[compute])}
    for kind in sorted(totals, key=lambda kind: (-totals[kind], kind))[:most_types]:
        if kind:
            yield _tasks("op", literal_pattern(kind), 0.5)
    if (job.component == "comm").any():
        yield _PLAIN[("comm", "overlap")]
        yield _tasks("comm", "*", 0.5)
    if (job.component == "copy").any():
        yield _tasks("copy", "*", 0.0)
    ranks = _ranks(job)
    outside = sorted(set(job.graph.held_by.values()) - set(ranks))
    if len(ranks) > 1:
        yield from (_rank(rank) for rank in _slowest(job, ranks)[:most_ranks])
    yield from (_rank(rank) for rank in outside[:most_ranks])
    yield from (_PLAIN[key] for key in (("sync", "none"), ("launch", "graph")))


def typed_reason(reason: str) -> str:
    """The text form of a reason of host work."""
    return reason.replace(" ", "-")


def _factor(spec: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1000:
        raise InputError(messages.no_factor(text=repr(text), spec=repr(spec)), where="--set", hint=messages.DO_FACTORS)
    return factor


def _times(factor: float) -> str:
    return {0.0: "takes no time", 0.5: "takes half as long"}.get(factor, f"takes {factor:g} times as long")


def _tasks(what: str, glob: str, factor: float) -> StepChange:
    words = {"op": "compute", "comm": "communication", "copy": "copying"}[what]
    which = words if glob == "*" else f"{words} {glob}"

    def chosen(job: JobStep) -> np.ndarray:
        called, code = job.called
        hit = np.array([fnmatchcase(name, glob) or fnmatchcase(kind, glob) for name, kind in called], dtype=bool)
        found: np.ndarray = hit[code] & (job.component == _OF_TASKS[what])
        return found

    def apply(job: JobStep, state: StepState) -> None:
        _scale_tasks(state, chosen(job), factor)

    def instead(job: JobStep) -> list[str]:
        own = job.component == _OF_TASKS[what]
        names = Counter(str(one) for one in (*job.type[own], *job.name[own]) if one)
        return [
            f"{what}:{literal_pattern(one)}={factor:g}"
            for one in closest(glob, [name for name, _ in names.most_common()])
        ]

    return StepChange(
        spec=f"{what}:{glob}={factor:g}", title=f"{which} {_times(factor)}", apply=apply, instead=instead,
        touches=lambda job: bool(chosen(job).any()),
    )  # fmt: skip


def _scale_tasks(state: StepState, chosen: np.ndarray, factor: float) -> None:
    state.dur[chosen] = np.round(state.dur[chosen] * factor).astype(np.int64)


def _host(spec: str, which: str, factor: float) -> StepChange:
    chosen = [place for place, reason in enumerate(REASONS) if fnmatchcase(typed_reason(reason), which)]
    if not chosen:
        known = ", ".join(map(typed_reason, REASONS))
        raise InputError(
            messages.no_host_work(which=repr(which), spec=repr(spec)), where="--set",
            hint=messages.do_host_work(known=known),
        )  # fmt: skip
    what = REASONS[chosen[0]] if len(chosen) == 1 else "all work"

    def apply(job: JobStep, state: StepState) -> None:
        _scale_host(state, slice(None), chosen, factor)

    def instead(job: JobStep) -> list[str]:
        there = [typed_reason(reason) for place, reason in enumerate(REASONS) if job.reason[:, place].any()]
        return [f"host:{one}={factor:g}" for one in closest(which, there)]

    return StepChange(
        spec=f"host:{which}={factor:g}", title=f"host: {what} {_times(factor)}", apply=apply, of_host=True,
        instead=instead, touches=lambda job: bool(job.reason[:, chosen].any()),
    )  # fmt: skip


def _scale_host(state: StepState, edges: np.ndarray | slice, places: Sequence[int], factor: float) -> None:
    for place in places:
        before = state.reason[edges, place].copy()
        state.reason[edges, place] = before * factor
        state.lag[edges] += np.round(before * factor - before).astype(np.int64)


def _rank(rank: int) -> StepChange:
    def apply(job: JobStep, state: StepState) -> None:
        if (job.graph.rank == rank).any():
            _to_median(job, state, rank)
        for node, peer in job.graph.held_by.items():
            if peer == rank:
                # The transfer starts when the collected ranks have arrived.
                state.release[node] = OFF
                edges = np.arange(job.graph.first[node], job.graph.first[node + 1])
                state.lag[edges[job.graph.kind[edges] == OUTSIDE]] = OFF

    return StepChange(
        spec=f"rank:{rank}=median", title=f"rank {rank} is as fast as the median of the ranks", apply=apply,
        touches=lambda job: rank in _ranks(job) or rank in job.graph.held_by.values(),
        instead=lambda job: [f"rank:{one}=median" for one in _nearest(rank, job)],
    )  # fmt: skip


def _ranks(job: JobStep) -> list[int]:
    return sorted({int(rank) for rank in job.graph.rank if rank != NONE})


def _nearest(rank: int, job: JobStep) -> list[int]:
    return sorted(_ranks(job), key=lambda one: abs(one - rank))[:_NEAREST]


def _compute(rank: int, factor: float) -> StepChange:
    def apply(job: JobStep, state: StepState) -> None:
        _scale_tasks(state, (job.component == "compute") & (job.graph.rank == rank), factor)

    return _of_one_rank("compute", f"all compute of rank {rank} {_times(factor)}", rank, factor, apply)


def _layers(rank: int, factor: float) -> StepChange:
    def apply(job: JobStep, state: StepState) -> None:
        mine = job.graph.rank == rank
        _scale_tasks(state, mine & ((job.component == "compute") | _of_layers(job, mine)), factor)

    return _of_one_rank("layers", f"rank {rank} has {factor:g} times its layers", rank, factor, apply)


def _of_one_rank(
    what: str, title: str, rank: int, factor: float, apply: Callable[[JobStep, StepState], None]
) -> StepChange:
    return StepChange(
        spec=f"{what}:{rank}={factor:g}", title=title, apply=apply,
        touches=lambda job: bool(((job.component == "compute") & (job.graph.rank == rank)).any()),
        instead=lambda job: [f"{what}:{one}={factor:g}" for one in _nearest(rank, job)],
    )  # fmt: skip


def _of_layers(job: JobStep, mine: np.ndarray) -> np.ndarray:
    """The transfers of a rank that belong to its layers: gradients and exchanges, several of a kind and size per step.

    A single transfer belongs to an embedding or a head, which stay. Transfers between stages stay as they are.
    """
    comm = mine & (job.component == "comm") & ~np.isin(job.type, BETWEEN_TWO)
    nodes = np.flatnonzero(comm).tolist()
    alike = Counter((job.type[node], int(job.bytes[node])) for node in nodes)
    steps = 2 if job.graph.origins else 1
    several = [node for node in nodes if alike[job.type[node], int(job.bytes[node])] > steps]
    found = np.zeros(len(mine), dtype=bool)
    found[several] = True
    return found


def _to_median(job: JobStep, state: StepState, rank: int) -> None:
    """Scale a rank's tasks by type, and its host work by reason, down to the median of comparable ranks."""
    others = _alike(job, rank)
    compute = (job.component == "compute") & (job.graph.rank == rank)
    for kind in set(job.type[compute]):
        same = (job.component == "compute") & (job.type == kind)
        own = float(state.dur[same & compute].sum())
        usual = (
            float(np.median([state.dur[same & (job.graph.rank == other)].sum() for other in others])) if others else 0
        )
        if 0 < usual < own:
            _scale_tasks(state, same & compute, usual / own)
    of_edge = job.graph.rank[job.graph.target]
    for place in range(len(REASONS)):
        own = float(state.reason[of_edge == rank, place].sum())
        usual = float(np.median([state.reason[of_edge == other, place].sum() for other in others])) if others else own
        if usual < own:
            _scale_host(state, of_edge == rank, [place], usual / own)


def _alike(job: JobStep, rank: int) -> list[int]:
    """The other ranks with equally many compute tasks, as in one pipeline stage; all others if there are none."""
    count = Counter(job.graph.rank[job.component == "compute"].tolist())
    others = sorted({int(other) for other in job.graph.rank if other not in (NONE, rank)})
    return [other for other in others if count[other] == count[rank]] or others


def _slowest(job: JobStep, ranks: Sequence[int]) -> list[int]:
    """The ranks by their own work (compute and host work), the most first."""
    of_edge = job.graph.rank[job.graph.target]
    compute = job.component == "compute"
    work = {
        rank: int(job.graph.dur[compute & (job.graph.rank == rank)].sum()) + int(job.reason[of_edge == rank].sum())
        for rank in ranks
    }
    return sorted(ranks, key=lambda rank: (-work[rank], rank))


def _overlap(job: JobStep, state: StepState) -> None:
    state.dur[job.component == "comm"] = 0


def _even(job: JobStep, state: StepState) -> None:
    comm = (job.component == "comm") & (job.graph.dur > 0)
    for kind in set(job.type[comm]):
        # With few transfers per rank, half of them may stall; among the transfers of all ranks, hardly half do.
        every = int(np.median(job.graph.dur[comm & (job.type == kind)]))
        for rank in np.unique(job.graph.rank[comm & (job.type == kind)]).tolist():
            like = comm & (job.graph.rank == rank) & (job.type == kind)
            usual = min(every, int(np.median(job.graph.dur[like])))
            state.dur[like & (job.graph.dur >= _STALLED * usual)] = usual


def _no_synchronisation(job: JobStep, state: StepState) -> None:
    state.lag[_synchronisations(job)] = OFF


def _synchronisations(job: JobStep) -> np.ndarray:
    found: np.ndarray = (job.graph.kind == WAITED) & (job.graph.task[job.graph.pred] != NONE)
    return found


def _has_transfers(job: JobStep) -> bool:
    return bool((job.component == "comm").any())


def _graph(job: JobStep, state: StepState) -> None:
    places = [REASONS.index(reason) for reason in (LAUNCH, OPERATOR, PYTHON)]
    _scale_host(state, slice(None), places, 0.0)
    unnamed = REASONS.index(UNNAMED)
    _scale_host(state, (state.reason[:, unnamed] > 0) & (state.reason[:, unnamed] <= _BETWEEN_NS), [unnamed], 0.0)
    launches = (job.graph.kind == LAUNCHED) & (state.lag <= UNDER_WAY_NS)
    state.lag[launches] = np.minimum(state.lag[launches], 0)
    # A graph's tasks follow each other, whatever delayed a launch: a call, or time that no call covers.
    follows = (job.graph.kind == DEVICE) & (state.lag <= UNDER_WAY_NS)
    state.lag[follows] = np.minimum(state.lag[follows], LONGEST_SWITCH_NS)


_OF_RANK = {"compute": _compute, "layers": _layers}
_PLAIN = {
    ("comm", "overlap"): StepChange(
        spec="comm:overlap", title="all communication is hidden", apply=_overlap, touches=_has_transfers
    ),
    ("comm", "even"): StepChange(spec="comm:even", title="no transfer stalls", apply=_even, touches=_has_transfers),
    ("sync", "none"): StepChange(
        spec="sync:none",
        title="the host never waits for the device",
        apply=_no_synchronisation,
        of_host=True,
        touches=lambda job: bool(_synchronisations(job).any()),
    ),
    ("launch", "graph"): StepChange(
        spec="launch:graph",
        title="the step is launched as one graph",
        apply=_graph,
        of_host=True,
        touches=lambda job: bool((job.graph.kind == LAUNCHED).any()),
    ),
}
