"""A function of the program's own code takes much of the step, and trains nothing in that time.

## What it detects

The rule counts the stepping thread's time in one function of your program: its bytecode, builtins, and libraries such
as NumPy. Calls of the framework and of other functions of the program do not count. The time is the mean per step, as a
share of the step. With a device, only time in which the device is idle counts.

Operators in the function count too, if no module runs there and no operator needs a gradient. The limit for operators
is then twice as high. The limit is the usual one if the operators start from constants alone (zeros, arange, tensors of
lists), because such a function gives the same result each time. From half of the limit on, a function of constants is a
preview. With a device, operators count by their time on the device.

Python frames tell the time, and stacks tell the operators. If neither was recorded, Hermes takes how often its samples
saw the function, up to the time outside of all recorded calls. Functions that a data loader calls belong to IO001.

## Why it costs you

Python runs one thing at a time, and the device gets no work while your function runs. A loop over elements in Python is
ten to a hundred times slower than one operator over all elements. Work that no gradient needs delays the training:
statistics, copies, bookkeeping. Masks, tables and grids that never change but are built in each step delay the
training, too.

## When it is not a problem

A hot function is no problem if it is the purpose of the program, such as a simulator or the targets of reinforcement
learning. Results cannot be computed once if the function gets other arguments in each call. A function that runs rarely
costs little, even if the capture happens to hold a call. A profiler lengthens functions that make many short calls; the
gain allows for that.

## What to do

Look at the line that the finding names. Replace loops over elements with operators. Compute constant results once,
before the loop. Do work rarely that not every step needs. Move other work to workers or to another thread.

## How to check

In the next capture the line is no longer among the lines with the most time, and the step is shorter by its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.job import Job, Rows
from hermes.model.leaf import Leaf
from hermes.model.limit import Limit
from hermes.profiles.rules._code import (
    beside_training,
    evidence_of,
    gain_of,
    growing,
    idle_of,
    outside_loaders,
)
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import has_device, mean_steps
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

ANEW = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
LIMIT = Limit(value=0.1, unit="of step is Python", source="docs/evidence/host-limits.md")
BESIDE = Limit(value=0.2, unit="of step, with operators that need no gradient", source="docs/evidence/host-limits.md")
_NO_CALL = frozenset({Leaf.PYTHON, Leaf.NOT_RECORDED, Leaf.INTERPRETER_LOCK, Leaf.FILE_OR_NETWORK})
"""The leaves of a thread that is in no recorded call: only samples tell its lines."""
_MOST = 3
_MOST_ANEW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """The cost of a function on the rank that loses most; `anew`: only its operators that start from constants."""

    row: CodeLine
    ns: int
    share: float
    ranks: tuple[int, ...]
    anew: bool = False


@rule("HOT001", state="stable", fault=Fault.HOT_FUNCTION)
def own_function(job: Job, lines: Rows[CodeLine]) -> Iterator[Loss]:
    """At most three functions beyond a limit on some rank, and then at most two that only make tensors."""
    # If nothing trains, as in inference, no operator is beside the training.
    training = {row.rank for row in lines if row.trains}

    def own(row: CodeLine, step_ns: int) -> int:
        python, work = _python(job, row), _work(job, row) if row.rank in training else 0
        return python + work if by_share(LIMIT if row.made else BESIDE, (python + work) / step_ns) else python

    hot = _costs(job, lines, LIMIT, own)
    yield from (_loss(job, one) for one in hot[:_MOST])
    said = {one.row.said for one in hot}
    anew = _costs(job, [row for row in lines if row.said not in said], ANEW, lambda row, _: _making(job, row))
    yield from (_loss(job, replace(one, anew=True)) for one in anew[:_MOST_ANEW])


def _costs(job: Job, lines: Iterable[CodeLine], limit: Limit, cost: Callable[[CodeLine, int], int]) -> list[_Cost]:
    """The functions beyond a limit of the step on some rank, and the ranks that lose at least half as much."""
    steps, costs = mean_steps(job), dict[str, dict[int, tuple[int, CodeLine]]]()
    for row in outside_loaders(lines):
        if steps.get(row.rank):
            ns, own = min(cost(row, steps[row.rank]), steps[row.rank]), costs.setdefault(row.said, {})
            own[row.rank] = max(own.get(row.rank, (0, row)), (ns, row), key=lambda one: one[0])
    found = []
    for own in costs.values():
        beyond = [one for rank, one in own.items() if by_share(limit, one[0] / steps[rank])]
        if beyond:
            ns, row = max(beyond, key=lambda one: one[0])
            ranks = tuple(sorted(rank for rank, (other, _) in own.items() if other * 2 >= ns))
            found.append(_Cost(row=row, ns=ns, share=ns / steps[row.rank], ranks=ranks))
    return sorted(found, key=lambda one: (-one.ns, one.row.said))


def _loss(job: Job, one: _Cost) -> Loss:
    row, limit = one.row, (ANEW if one.anew else LIMIT)
    is_python = row.source != "samples" and row.python_ns >= row.operator_ns
    sure = by_share(BESIDE, one.share) and is_python
    what = PYTHON if is_python else NO_CALL if row.source == "samples" else NO_GRADIENT
    share, growth = percents(one.share), growing(row)
    said = hot(line=row.said, what=what, share=share, calls=_calls(row), on=some_of(job, one.ranks), growth=growth)
    return Loss(
        fault=Fault.MADE_ANEW if one.anew else None,
        state="preview" if one.anew else "stable",
        message=anew(line=row.said, share=share, growth=growth) if one.anew else said,
        ranks=one.ranks,
        blames=(Blame(row.said, "line"),),
        cost_ns=one.ns,
        share=one.share,
        gain=gain_of(job, row.rank, one.ns, ITS_OPERATORS if one.anew else OWN_TIME),
        confidence=confidence("HOT001.python" if sure and not one.anew else "HOT001"),
        evidence=evidence_of(job, row, one.share, limit.value),
        lines=(row.said, *_written_in(row)),
        actions=_at(row),
    )


def _making(job: Job, row: CodeLine) -> int:
    """Time of a function's operators that start from constants alone."""
    if not (row.made and beside_training(row)):
        return 0
    return row.device_ns if has_device(job, row.rank) else row.own_ns


def _python(job: Job, row: CodeLine) -> int:
    """Time of a function's Python that the step could lose: if a device works, at most the device's free time."""
    ns = row.python_ns
    if row.source == "samples":
        ns = min(row.python_ns, job.room_ns(row.rank, _NO_CALL) or 0)
    return min(ns, idle_of(job, row.rank)) if has_device(job, row.rank) else ns


def _work(job: Job, row: CodeLine) -> int:
    """Time of a function's operators, if the function trains nothing."""
    if not beside_training(row):
        return 0
    return row.device_ns if has_device(job, row.rank) else row.operator_ns + row.framework_ns + row.launch_ns


def _calls(row: CodeLine) -> Message | None:
    if row.calls is None or row.calls < 1:
        return None
    return several_calls(calls=f"{row.calls:.0f}") if row.calls >= 1.5 else ONE_CALL


def _written_in(row: CodeLine) -> tuple[str, ...]:
    """The function that contains an expression, if Python runs the expression as a function of its own."""
    return (row.caller,) if row.function.startswith("<") and row.caller else ()


def _at(row: CodeLine) -> tuple[Action, ...]:
    if row.made and not row.modules:
        return (_make_once(row),)
    if row.modules or row.trains or row.source == "samples":
        return _either(_look_at(row))
    return _either(
        Action(title=take_out(function=row.said), do=TAKE_OUT_DO, verify=VERIFY, risk=NO_RISK, source=_GUIDE)
    )  # fmt: skip


def _make_once(row: CodeLine) -> Action:
    return Action(
        title=make_once(function=row.said),
        do=MAKE_ONCE_DO,
        verify=MAKE_ONCE_VERIFY,
        risk=MAKE_ONCE_RISK,
        source="PyTorch documentation of torch.nn.Module.register_buffer",
    )


def _look_at(row: CodeLine) -> Action:
    """The action for a function that trains, or is only known from samples: lines in it to look at."""
    lines = ", ".join(f"{line} ({share:.0%})" for line, share in row.lines)
    calls = ", ".join(name for name, _ in row.names)
    return Action(
        title=look_at(function=row.said),
        do=look_do(lines=lines or None, calls=calls or None),
        verify=VERIFY,
        risk=NO_RISK,
        source=_GUIDE,
        whole=True,
    )


def _either(action: Action) -> tuple[Action, ...]:
    """The action for jobs that train, and the action for other jobs, which risk nothing."""
    return (
        replace(action, risk=RISK, fit=Fit(phase="training")),
        replace(action, fit=Fit(phase="inference")),
    )


_GUIDE = "PyTorch performance tuning guide"
PYTHON = sentence("hot001.python")
NO_GRADIENT = sentence("hot001.no_gradient")
NO_CALL = sentence("hot001.no_call")
ONE_CALL = sentence("hot001.one_call")
ITS_OPERATORS = sentence("hot001.its_operators")
OWN_TIME = sentence("hot001.own_time")
TAKE_OUT_DO = sentence("hot001.take_out_do")
VERIFY = sentence("hot001.verify")
RISK = sentence("hot001.risk")
MAKE_ONCE_DO = sentence("hot001.make_once_do")
MAKE_ONCE_VERIFY = sentence("hot001.make_once_verify")
MAKE_ONCE_RISK = sentence("hot001.make_once_risk")


@message("hot001.hot")
def hot(
    *, line: Name, what: Message, share: Share, calls: Message | None = None, on: Message | None = None,
    growth: Message | None = None,
) -> None:  # fmt: skip
    """A function takes much of the step."""


@message("hot001.anew")
def anew(*, line: Name, share: Share, growth: Message | None = None) -> None:
    """A function makes the same tensors in each step."""


@message("hot001.calls")
def several_calls(*, calls: Name) -> None:
    """How often the function is called in a step."""


@message("hot001.make_once")
def make_once(*, function: Name) -> None:
    """What to do about tensors that are made again in each step."""


@message("hot001.take_out")
def take_out(*, function: Name) -> None:
    """What to do about a function that trains nothing."""


@message("hot001.look_at")
def look_at(*, function: Name) -> None:
    """What to do about a function that also trains."""


@message("hot001.look_do")
def look_do(*, lines: Name | None = None, calls: Name | None = None) -> None:
    """The lines and calls of the function to look at."""
