"""Lists of numbers are turned into tensors in the training loop.

## What it detects

Time a step in which the training thread makes tensors or arrays of Python objects (`torch.tensor`, `torch.as_tensor`,
`numpy.array`) outside of the loader, with the comprehensions that make these objects just before, as far as they call
no operators (Python up to 3.11 has frames of them), and with what it takes there to unpickle what workers sent: free
time of the device meanwhile, or the host's own time where there is no device.

## Why it costs you

Each number of a list is an object that is looked at by itself: a hundred times the time of copying the same numbers
from an array. Between processes each of them is pickled, sent and made anew, too.

## When it is not a problem

For a few scalars a step.

## What to do

Make tensors where the numbers come from: in the dataset or in the worker's collate function; keep samples as arrays,
and use `torch.from_numpy`.

## How to check

The calls are gone from the next profile, and the step is shorter by their time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CONVERSION, UNPICKLING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events, on
from hermes.profiles.rules._input import where_verb
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO007", state="stable", fault=Fault.LISTS_TO_TENSORS, cases=("IO-13", "CPU-20"))
def lists_to_tensors(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding."""
    alone = host_loss(job, "making tensors of lists", LIMIT, lambda split: _converted(job, events, split.rank))
    if alone is None:
        return

    def cost(rank: int) -> int | None:
        made = _converted(job, events, rank)
        return None if made is None else made + (event_cost(job, events, rank, UNPICKLING) or 0)

    found = host_loss(job, "making and unpickling lists", LIMIT, lambda split: cost(split.rank))
    row = events_of(events, found.worst.rank, CONVERSION) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=f"Making tensors of Python lists {where_verb(job, found)}{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "batches arrive as tensors"),
        confidence=confidence("IO007"),
        evidence=(*alone.evidence, *of_events(job, row)),
        actions=(
            Action(
                title="Hand tensors over, not lists",
                do="Return tensors from the dataset, or stack them in collate_fn, so that workers do it; "
                "torch.from_numpy(numpy.stack(rows)) in place of torch.tensor(rows).",
                verify="torch.tensor is gone from the training thread.",
                risk="none",
                source="PyTorch documentation: torch.as_tensor and torch.from_numpy; multiprocessing: tensors are "
                "passed in shared memory, other objects are pickled",
            ),
            Action(
                title="Compute masks and indices with tensors",
                do="mask = torch.arange(n, device=x.device) < lengths[:, None] in place of lists of lists; what is the "
                "same in each step is a buffer: self.register_buffer('mask', ...).",
                verify="The comprehensions and torch.tensor are gone from the step.",
                risk="none",
                source="PyTorch performance tuning guide: create tensors directly on the target device",
            ),
        ),
    )


def _converted(job: Job, events: Rows[HostEvents], rank: int) -> int | None:
    return event_cost(job, events, rank, CONVERSION)
