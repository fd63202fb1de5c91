"""What rules about lines of the user's code share."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.host_work import COMPILATION, DATA
from hermes.model.code_measures import CodeLine
from hermes.model.finding import Evidence, Gain
from hermes.model.job import Job, Rows
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import fact, has_device

_GROWS = 1.3
"""A function that takes so much more in the last step than in the first, and in none less, is said to grow."""
_LEAST_LEFT = 0.5
_OTHERS = (DATA, COMPILATION)
"""What other rules tell with all of its functions."""


def mean_steps(job: Job) -> dict[int, int]:
    """By rank the mean step, which what is counted over a capture is a part of."""
    own: dict[int, list[int]] = {}
    for split in job.steps.every:
        own.setdefault(split.rank, []).append(split.whole_ns)
    return {rank: sum(lengths) // len(lengths) for rank, lengths in own.items() if sum(lengths)}


def outside_loaders(lines: Rows[CodeLine]) -> Iterator[CodeLine]:
    """The functions that no data loader and no compiler calls."""
    return (row for row in lines if row.place and row.within not in _OTHERS)


def beside_training(row: CodeLine) -> bool:
    """Whether a function trains nothing, as far as frames tell: no module runs in it, and nothing has a backward.

    What a `torch.autograd.Function` computes has one of its own, which no operator of it tells.
    """
    custom = row.function in ("forward", "backward")
    return not row.modules and not row.trains and not custom and row.source == "frames"


def idle_of(free: Rows[StepFree], rank: int) -> int:
    """Time of the step in which a device had nothing to do and the host is why."""
    return sum(part.ns for step in free.of(rank) for part in step.parts if part.component == "host")


def gain_of(job: Job, rank: int, cost_ns: int, method: str) -> Gain:
    """From half of it to all without a device, where nothing runs beside the host; else a bound."""
    low = 0 if has_device(job, rank) else round(cost_ns * _LEAST_LEFT)
    return Gain(low_ns=low, high_ns=cost_ns, method=f"bound: {method}")


def growing(row: CodeLine) -> str:
    """The end of a title for a function that takes more from step to step."""
    return f"; {row.growth:.1f} times as much in the last step as in the first" if (row.growth or 0) >= _GROWS else ""


def evidence_of(job: Job, row: CodeLine, share: float, limit: float) -> tuple[Evidence, ...]:
    """The parts of the function's time, its calls, who calls it, and what takes most of it."""
    said = [
        fact(job, row.rank, f"time of {row.said} that is its own", share, "of step", limit),
        fact(job, row.rank, "of it Python", row.python_ns, "ns a step"),
        fact(job, row.rank, "of it operators", row.operator_ns, "ns a step"),
    ]
    if row.calls is not None:
        said.append(fact(job, row.rank, "calls a step", row.calls, "calls"))
    for caller in dict.fromkeys(one for one in (row.caller, row.loop) if one and one != row.said):
        said.append(fact(job, row.rank, f"called in {caller}", row.total_ns or row.own_ns, "ns a step"))
    said += [fact(job, row.rank, f"seen at {line}", part, "of its samples") for line, part in row.lines]
    said += [fact(job, row.rank, f"time in {name}", ns, "ns a step") for name, ns in row.names]
    return tuple(said)
