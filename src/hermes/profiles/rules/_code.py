"""Costs, gains and evidence that rules about the user's code share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hermes.base.message import Message, Name, message, sentence
from hermes.knowledge.host_work import COMPILATION, DATA
from hermes.model.code_measures import CodeLine
from hermes.model.finding import Evidence, Gain
from hermes.model.job import Job
from hermes.model.leaf import IDLE
from hermes.profiles.rules import evidence_messages as say
from hermes.profiles.rules._host import fact, has_device
from hermes.profiles.rules.gain_messages import at_most

_GROWS = 1.3
"""A function grows if it takes this many times more in the last step than in the first, and never less than before."""
_LEAST_LEFT = 0.5
_OTHERS = (DATA, COMPILATION)
"""Kinds of work for which other rules report all functions."""


def outside_loaders(lines: Iterable[CodeLine]) -> Iterator[CodeLine]:
    """The functions that neither a data loader nor a compiler calls."""
    return (row for row in lines if row.place and row.within not in _OTHERS)


def beside_training(row: CodeLine) -> bool:
    """Whether a function trains nothing, as far as frames tell: no module runs in it, and it has no backward work.

    A `torch.autograd.Function` has its own backward work, which none of its operators tells.
    """
    custom = row.function in ("forward", "backward")
    return not row.modules and not row.trains and not custom and row.source == "frames"


def idle_of(job: Job, rank: int) -> int:
    """Time of a step in which the device has nothing to do, in ns; 0 if no leaf was measured."""
    return job.room_ns(rank, IDLE) or 0


def gain_of(job: Job, rank: int, cost_ns: int, method: Message) -> Gain:
    """The gain: half to all of the cost without a device, where nothing runs beside the host; otherwise a bound."""
    low = 0 if has_device(job, rank) else round(cost_ns * _LEAST_LEFT)
    return Gain(low_ns=low, high_ns=cost_ns, method=at_most(when=method))


def growing(row: CodeLine) -> Message | None:
    """The end of a title, for a function whose time grows from step to step."""
    return grows(times=f"{row.growth:.1f}") if row.growth is not None and row.growth >= _GROWS else None


def evidence_of(job: Job, row: CodeLine, share: float, limit: float) -> tuple[Evidence, ...]:
    """The parts of a function's time, its calls, its callers, and the names that take most of its time."""
    said = [
        fact(job, row.rank, own_time(function=row.said), share, "of step", limit),
        fact(job, row.rank, OF_IT_PYTHON, row.python_ns, "ns a step"),
        fact(job, row.rank, OF_IT_OPERATORS, row.operator_ns, "ns a step"),
    ]
    if row.calls is not None:
        said.append(fact(job, row.rank, say.CALLS, row.calls, "calls"))
    for caller in dict.fromkeys(one for one in (row.caller, row.loop) if one and one != row.said):
        said.append(fact(job, row.rank, called_in(caller=caller), row.total_ns or row.own_ns, "ns a step"))
    said += [fact(job, row.rank, seen_at(line=line), part, "of its samples") for line, part in row.lines]
    said += [fact(job, row.rank, say.time_in(name=name), ns, "ns a step") for name, ns in row.names]
    return tuple(said)


OF_IT_PYTHON = sentence("code.of_it_python")
OF_IT_OPERATORS = sentence("code.of_it_operators")


@message("code.grows")
def grows(*, times: Name) -> None:
    """The time of a function grows from step to step."""


@message("code.own_time")
def own_time(*, function: Name) -> None:
    """The own time of a function."""


@message("code.called_in")
def called_in(*, caller: Name) -> None:
    """The time of a function, by its caller."""


@message("code.seen_at")
def seen_at(*, line: Name) -> None:
    """How often samples saw a line of a function."""
