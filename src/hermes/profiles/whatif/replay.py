"""Re-times a step under changes, and says what they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import starts
from hermes.profiles.measure.path.lanes import NONE
from hermes.profiles.whatif.changes import OFF, Change, State, candidates
from hermes.profiles.whatif.job import JobStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What changes give of a step that took `step_ns`: from where the step before was done to where it was itself.

    `low_ns` is the replay: what else then takes over is counted, and of a change of the host the device does its work
    in the order that it had. `high_ns` is the bound: what the changes take off the critical path as it was, had nothing
    else taken over, and of a change of the host at most the time that the device was free. `specs` is how to ask for it
    again. `settled`: the step before is part of it, so that what that one leaves to this one is known.
    """

    specs: tuple[str, ...]
    title: str
    step_ns: int
    low_ns: int
    high_ns: int
    settled: bool = True

    @property
    def share(self) -> float:
        """Of the step, the part that is won."""
        return self.low_ns / self.step_ns if self.step_ns else 0.0


def predict(job: JobStep, changes: Sequence[Change]) -> Prediction:
    """What changes give together: they are replayed together, not added up."""
    return replay(job, changes).prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A step under changes: what they give, and when its nodes start and how long they last."""

    prediction: Prediction
    start: Ints
    dur: Ints


def replay(job: JobStep, changes: Sequence[Change]) -> Replay:
    """The step with all its times under changes."""
    state = State.of(job)
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
    """Every change worth a look, as `in_order` has them."""
    return in_order(predict(job, [change]) for change in candidates(job))


def in_order(found: Iterable[Prediction]) -> list[Prediction]:
    """The largest gain first; those that give nothing are left out."""
    return sorted((one for one in found if one.low_ns > 0), key=lambda one: (-one.low_ns, -one.high_ns, one.specs))


def _bound(job: JobStep, state: State) -> int:
    """How much shorter the changes make the chain that ended last, link by link, back to where the step began."""
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
            # What held it is gone: its own chain is what is left.
            won += held - ready[node]
        if state.lag[edge] == OFF:
            # The wait is gone, and with it all that it led to: what is left is not on this chain.
            left = [other for other in range(graph.first[node], graph.first[node + 1]) if state.lag[other] != OFF]
            if not left:
                break
            edge = max(left, key=lambda other: int(finish[graph.pred[other]] + graph.lag[other]))
            won += int(ready[node] - finish[graph.pred[edge]] - graph.lag[edge])
        won += int(graph.lag[edge] - state.lag[edge])
        node = int(graph.pred[edge])
    return min(won, job.end_ns - job.begin_ns)
