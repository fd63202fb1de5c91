"""Replays a step under changes, and predicts the gain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import starts
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.changes import OFF, StepChange, StepState, candidates
from hermes.profiles.whatif.step_event_graph import JobStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The predicted gain of changes for a step of `step_ns`, from the end of the step before to the end of this step.

    `low_ns` is the replayed gain: it counts other work that then takes over. If the host changes, the device keeps the
    order of its work. `high_ns` is the bound: the time that the changes take off the measured critical path, if nothing
    else took over. If the host changes, the bound is at most the idle time of the device. `specs` are the texts of the
    changes. `settled`: the step before is included, because it leaves work to this step.
    """

    specs: tuple[str, ...]
    title: str
    step_ns: int
    low_ns: int
    high_ns: int
    settled: bool = True

    @property
    def share(self) -> float:
        """The replayed gain as a share of the step."""
        return self.low_ns / self.step_ns if self.step_ns else 0.0


def predict(job: JobStep, changes: Sequence[StepChange]) -> Prediction:
    """The gain of changes that are made together: they are replayed together, not added up."""
    return replay(job, changes).prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A step under changes: the predicted gain, and the start and duration of its nodes in ns."""

    prediction: Prediction
    start: Ints
    dur: Ints


def replay(job: JobStep, changes: Sequence[StepChange]) -> Replay:
    """Replay the step under changes, with all its times."""
    state = StepState.of(job)
    for change in changes:
        change.apply(job, state)
    of_host = all(change.of_host for change in changes)
    if not of_host:
        state.free_the_order(job)
    start = starts(job.graph, dur=state.dur, lag=state.lag, release=state.release)
    finish = start + state.dur
    begin, end = job.bounds(finish)
    low = job.end_ns - job.begin_ns - (end - begin)
    high = max(low, _bound(job, state))
    if of_host:
        low, high = min(low, job.free_ns), min(high, job.free_ns)
    prediction = Prediction(
        specs=tuple(change.spec for change in changes),
        title="; ".join(change.title for change in changes),
        step_ns=job.end_ns - job.begin_ns,
        low_ns=low,
        high_ns=high,
        settled=bool(job.graph.origins),
    )
    return Replay(prediction=prediction, start=start, dur=state.dur)


def predictions(job: JobStep) -> list[Prediction]:
    """The predictions of all changes worth a replay, in the order of `in_order`."""
    return in_order(predict(job, [change]) for change in candidates(job))


def in_order(found: Iterable[Prediction]) -> list[Prediction]:
    """Predictions by gain, the largest first; predictions without a gain are left out."""
    return sorted((one for one in found if one.low_ns > 0), key=lambda one: (-one.low_ns, -one.high_ns, one.specs))


def _bound(job: JobStep, state: StepState) -> int:
    """How many ns the changes take off the chain that ended last, link by link, back to the begin of the step."""
    graph = job.graph
    finish = graph.finish
    node = max(graph.sinks.values(), key=lambda sink: int(finish[sink]), default=-1)
    won = 0
    last, ready = job.last_in
    while node >= 0 and finish[node] > job.begin_ns:
        won += int(graph.dur[node] - state.dur[node])
        edge = last[node]
        if edge == NONE:
            break
        held = int(graph.release[node])
        if held > ready[node]:
            if state.release[node] != OFF:
                break
            # The release that delayed the node is gone: the node's own chain remains.
            won += held - ready[node]
        if state.lag[edge] == OFF:
            # The wait is gone with the chain that led to it: go on with the latest remaining edge.
            left = [other for other in range(graph.first[node], graph.first[node + 1]) if state.lag[other] != OFF]
            if not left:
                break
            edge = max(left, key=lambda other: int(finish[graph.pred[other]] + graph.lag[other]))
            won += int(ready[node] - finish[graph.pred[edge]] - graph.lag[edge])
        won += int(graph.lag[edge] - state.lag[edge])
        node = int(graph.pred[edge])
    return min(won, job.end_ns - job.begin_ns)
