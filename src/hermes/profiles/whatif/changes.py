"""What can be changed in a step: each change has a short form to type, and scales times of nodes and edges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from hermes.base.closest import closest
from hermes.base.errors import InputError
from hermes.base.globs import literal
from hermes.base.intervals import Ints
from hermes.base.units import whole
from hermes.knowledge.host_work import LAUNCH, OPERATOR, PYTHON, REASONS
from hermes.knowledge.host_work import OUTSIDE as UNNAMED
from hermes.model.tables.collective import BETWEEN_TWO
from hermes.profiles.measure.path.event_graph import DEVICE, LAUNCHED, ORDER, OUTSIDE, WAITED
from hermes.profiles.measure.path.graph import LONGEST_SWITCH_NS, UNDER_WAY_NS
from hermes.profiles.measure.path.lanes import NONE
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.job import JobStep

OFF = -(2**60)
"""Lag of an edge that holds nothing any more."""
_STALLED = 10
"""From so many times the usual length of a rank's operations of a kind on, one has stalled (`analyze.transfers`)."""
# What no call covers between two launches is Python that hands over work; longer than this it may be anything.
_BETWEEN_NS = 200_000
_NEAREST = 5
"""So many ranks are offered instead of one that is not there."""
_OF_TASKS = {"op": "compute", "comm": "comm", "copy": "copy"}
_SPEC = re.compile(r"(?P<what>[a-z]+):(?P<which>.+?)(=(?P<to>[^=]+))?")
_HINT = (
    "such as op:MatMul*=0.5, host:data-loading=0, comm:overlap, rank:5=median, compute:5=0.8, layers:5=0.8, "
    "sync:none or launch:graph"
)


@dataclass(slots=True)
class State:
    """The times of a step under change: durations by node, lags and host work by reason by edge, releases by node."""

    dur: Ints
    lag: Ints
    reason: np.ndarray
    release: Ints

    def free_the_order(self, job: JobStep) -> None:
        """Let device tasks run beside each other that did not, where nothing recorded holds them back."""
        self.lag[job.graph.kind == ORDER] = OFF

    @staticmethod
    def of(job: JobStep) -> State:
        """As measured."""
        return State(
            job.graph.dur.copy(),
            job.graph.lag.copy(),
            job.reason.astype(np.float64),
            job.graph.release.copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change: how it is typed, what it means, and what it does to a state.

    `touches` says whether the step has what is changed, and `instead` what could be asked for in its place, the closest
    first. `of_host`: the host alone is changed, so that the device does the same work, each task as long as it was.
    """

    spec: str
    title: str
    apply: Callable[[JobStep, State], None]
    touches: Callable[[JobStep], bool]
    instead: Callable[[JobStep], Sequence[str]] = lambda _: ()
    of_host: bool = False


def parse(spec: str) -> Change:
    """The change that a text means; raises `InputError` where it means none."""
    match = _SPEC.fullmatch(spec.strip())
    if match:
        what, which, to = match["what"], match["which"], match["to"]
        if what in _OF_TASKS and to is not None:
            return _tasks(what, which, _factor(spec, to))
        if what == "host" and to is not None:
            return _host(spec, which, _factor(spec, to))
        rank = whole(which or "")
        if what == "rank" and to == "median" and rank is not None:
            return _rank(rank)
        if what in _OF_RANK and to is not None and rank is not None:
            return _OF_RANK[what](rank, _factor(spec, to))
        if to is None and (what, which) in _PLAIN:
            return _PLAIN[(what, which)]
    raise InputError(f"{spec!r} is no change", where="--set", hint=_HINT)


def changes_of(job: JobStep, specs: Sequence[str]) -> list[Change]:
    """The changes that texts mean; raises `InputError` where one means none, or touches nothing in the step."""
    found = [parse(spec) for spec in specs]
    for change in found:
        if not change.touches(job):
            others = change.instead(job)
            hint = messages.ask_for(changes=others) if others else messages.NOTHING_ALIKE
            raise InputError(messages.matches_nothing(change=change.spec), where="--set", hint=hint)
    return found


def candidates(job: JobStep, *, most_types: int = 8, most_ranks: int = 16) -> Iterator[Change]:
    """The changes worth a look at in a step."""
    for place, reason in enumerate(REASONS):
        if job.reason[:, place].any():
            yield _host("", slug(reason), 0.0)
    compute = job.component == "compute"
    totals = {kind: int(job.graph.dur[compute & (job.type == kind)].sum()) for kind in set(job.type[compute])}
    for kind in sorted(totals, key=lambda kind: (-totals[kind], kind))[:most_types]:
        if kind:
            yield _tasks("op", literal(kind), 0.5)
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


def slug(reason: str) -> str:
    """A reason as it is typed."""
    return reason.replace(" ", "-")


def _factor(spec: str, text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1000:
        raise InputError(f"{text!r} in {spec!r} is no factor", where="--set", hint="0 removes, 0.5 halves, 2 doubles")
    return factor


def _times(factor: float) -> str:
    return {0.0: "takes no time", 0.5: "takes half as long"}.get(factor, f"takes {factor:g} times as long")


def _tasks(what: str, glob: str, factor: float) -> Change:
    words = {"op": "compute", "comm": "communication", "copy": "copying"}[what]
    which = words if glob == "*" else f"{words} {glob}"

    def chosen(job: JobStep) -> np.ndarray:
        called, code = job.called
        hit = np.array([fnmatchcase(name, glob) or fnmatchcase(kind, glob) for name, kind in called], dtype=bool)
        found: np.ndarray = hit[code] & (job.component == _OF_TASKS[what])
        return found

    def apply(job: JobStep, state: State) -> None:
        _scale_tasks(state, chosen(job), factor)

    def instead(job: JobStep) -> list[str]:
        own = job.component == _OF_TASKS[what]
        names = Counter(str(one) for one in (*job.type[own], *job.name[own]) if one)
        return [f"{what}:{literal(one)}={factor:g}" for one in closest(glob, [name for name, _ in names.most_common()])]

    return Change(
        spec=f"{what}:{glob}={factor:g}", title=f"{which} {_times(factor)}", apply=apply, instead=instead,
        touches=lambda job: bool(chosen(job).any()),
    )  # fmt: skip


def _scale_tasks(state: State, chosen: np.ndarray, factor: float) -> None:
    state.dur[chosen] = np.round(state.dur[chosen] * factor).astype(np.int64)


def _host(spec: str, which: str, factor: float) -> Change:
    chosen = [place for place, reason in enumerate(REASONS) if fnmatchcase(slug(reason), which)]
    if not chosen:
        known = ", ".join(map(slug, REASONS))
        raise InputError(f"{which!r} in {spec!r} is nothing that hosts do", where="--set", hint=f"there are {known}")
    what = REASONS[chosen[0]] if len(chosen) == 1 else "all work"

    def apply(job: JobStep, state: State) -> None:
        _scale_host(state, slice(None), chosen, factor)

    def instead(job: JobStep) -> list[str]:
        there = [slug(reason) for place, reason in enumerate(REASONS) if job.reason[:, place].any()]
        return [f"host:{one}={factor:g}" for one in closest(which, there)]

    return Change(
        spec=f"host:{which}={factor:g}", title=f"host: {what} {_times(factor)}", apply=apply, of_host=True,
        instead=instead, touches=lambda job: bool(job.reason[:, chosen].any()),
    )  # fmt: skip


def _scale_host(state: State, edges: np.ndarray | slice, places: Sequence[int], factor: float) -> None:
    for place in places:
        before = state.reason[edges, place].copy()
        state.reason[edges, place] = before * factor
        state.lag[edges] += np.round(before * factor - before).astype(np.int64)


def _rank(rank: int) -> Change:
    def apply(job: JobStep, state: State) -> None:
        if (job.graph.rank == rank).any():
            _to_median(job, state, rank)
        for node, peer in job.graph.held_by.items():
            if peer == rank:
                # It starts when the ranks that were collected are there.
                state.release[node] = OFF
                edges = np.arange(job.graph.first[node], job.graph.first[node + 1])
                state.lag[edges[job.graph.kind[edges] == OUTSIDE]] = OFF

    return Change(
        spec=f"rank:{rank}=median", title=f"rank {rank} is as fast as the median of the ranks", apply=apply,
        touches=lambda job: rank in _ranks(job) or rank in job.graph.held_by.values(),
        instead=lambda job: [f"rank:{one}=median" for one in _nearest(rank, job)],
    )  # fmt: skip


def _ranks(job: JobStep) -> list[int]:
    return sorted({int(rank) for rank in job.graph.rank if rank != NONE})


def _nearest(rank: int, job: JobStep) -> list[int]:
    return sorted(_ranks(job), key=lambda one: abs(one - rank))[:_NEAREST]


def _compute(rank: int, factor: float) -> Change:
    def apply(job: JobStep, state: State) -> None:
        _scale_tasks(state, (job.component == "compute") & (job.graph.rank == rank), factor)

    return _of_one_rank("compute", f"all compute of rank {rank} {_times(factor)}", rank, factor, apply)


def _layers(rank: int, factor: float) -> Change:
    def apply(job: JobStep, state: State) -> None:
        mine = job.graph.rank == rank
        _scale_tasks(state, mine & ((job.component == "compute") | _of_layers(job, mine)), factor)

    return _of_one_rank("layers", f"rank {rank} has {factor:g} times its layers", rank, factor, apply)


def _of_one_rank(what: str, title: str, rank: int, factor: float, apply: Callable[[JobStep, State], None]) -> Change:
    return Change(
        spec=f"{what}:{rank}={factor:g}", title=title, apply=apply,
        touches=lambda job: bool(((job.component == "compute") & (job.graph.rank == rank)).any()),
        instead=lambda job: [f"{what}:{one}={factor:g}" for one in _nearest(rank, job)],
    )  # fmt: skip


def _of_layers(job: JobStep, mine: np.ndarray) -> np.ndarray:
    """The transfers of a rank that come with layers, their gradients and exchanges: of a kind and size several a step.

    A single one is of an embedding or a head, which stay, and what is sent between stages is as it was.
    """
    comm = mine & (job.component == "comm") & ~np.isin(job.type, BETWEEN_TWO)
    nodes = np.flatnonzero(comm).tolist()
    alike = Counter((job.type[node], int(job.bytes[node])) for node in nodes)
    steps = 2 if job.graph.origins else 1
    several = [node for node in nodes if alike[job.type[node], int(job.bytes[node])] > steps]
    found = np.zeros(len(mine), dtype=bool)
    found[several] = True
    return found


def _to_median(job: JobStep, state: State, rank: int) -> None:
    """Scale a rank's tasks by type, and its host work by reason, down to the median of the others."""
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
    """The other ranks with as many compute tasks, as those of one pipeline stage have; all others if there are none."""
    count = Counter(job.graph.rank[job.component == "compute"].tolist())
    others = sorted({int(other) for other in job.graph.rank if other not in (NONE, rank)})
    return [other for other in others if count[other] == count[rank]] or others


def _slowest(job: JobStep, ranks: Sequence[int]) -> list[int]:
    """The ranks by how much they work themselves, the most first."""
    of_edge = job.graph.rank[job.graph.target]
    compute = job.component == "compute"
    work = {
        rank: int(job.graph.dur[compute & (job.graph.rank == rank)].sum()) + int(job.reason[of_edge == rank].sum())
        for rank in ranks
    }
    return sorted(ranks, key=lambda rank: (-work[rank], rank))


def _overlap(job: JobStep, state: State) -> None:
    state.dur[job.component == "comm"] = 0


def _even(job: JobStep, state: State) -> None:
    comm = (job.component == "comm") & (job.graph.dur > 0)
    for kind in set(job.type[comm]):
        # Of few transfers of a rank half may stall; of those of all ranks hardly.
        every = int(np.median(job.graph.dur[comm & (job.type == kind)]))
        for rank in np.unique(job.graph.rank[comm & (job.type == kind)]).tolist():
            like = comm & (job.graph.rank == rank) & (job.type == kind)
            usual = min(every, int(np.median(job.graph.dur[like])))
            state.dur[like & (job.graph.dur >= _STALLED * usual)] = usual


def _no_synchronisation(job: JobStep, state: State) -> None:
    state.lag[_synchronisations(job)] = OFF


def _synchronisations(job: JobStep) -> np.ndarray:
    found: np.ndarray = (job.graph.kind == WAITED) & (job.graph.task[job.graph.pred] != NONE)
    return found


def _has_transfers(job: JobStep) -> bool:
    return bool((job.component == "comm").any())


def _graph(job: JobStep, state: State) -> None:
    places = [REASONS.index(reason) for reason in (LAUNCH, OPERATOR, PYTHON)]
    _scale_host(state, slice(None), places, 0.0)
    unnamed = REASONS.index(UNNAMED)
    _scale_host(state, (state.reason[:, unnamed] > 0) & (state.reason[:, unnamed] <= _BETWEEN_NS), [unnamed], 0.0)
    launches = (job.graph.kind == LAUNCHED) & (state.lag <= UNDER_WAY_NS)
    state.lag[launches] = np.minimum(state.lag[launches], 0)
    # However a launch was late, by a call or by what no call shows: a graph's tasks follow each other.
    follows = (job.graph.kind == DEVICE) & (state.lag <= UNDER_WAY_NS)
    state.lag[follows] = np.minimum(state.lag[follows], LONGEST_SWITCH_NS)


_OF_RANK = {"compute": _compute, "layers": _layers}
_PLAIN = {
    ("comm", "overlap"): Change(
        spec="comm:overlap", title="all communication is hidden", apply=_overlap, touches=_has_transfers
    ),
    ("comm", "even"): Change(spec="comm:even", title="no transfer stalls", apply=_even, touches=_has_transfers),
    ("sync", "none"): Change(
        spec="sync:none",
        title="the host never waits for the device",
        apply=_no_synchronisation,
        of_host=True,
        touches=lambda job: bool(_synchronisations(job).any()),
    ),
    ("launch", "graph"): Change(
        spec="launch:graph",
        title="the step is launched as one graph",
        apply=_graph,
        of_host=True,
        touches=lambda job: bool((job.graph.kind == LAUNCHED).any()),
    ),
}
