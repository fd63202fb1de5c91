"""Elementwise kernels and reductions that could be fused take much of the step."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPERATOR, PIECES, PYTHON, RECURRENT
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import FUSED_OPERATORS
from hermes.model.advice_fit import Fit
from hermes.model.code_measures import CalledAgain
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.host_measures import HostEvents, StepHost
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.structure.kernel_sequences import Unfused
from hermes.profiles.measure.structure.vector_work_on_matrix_cores import VectorOnMatrix
from hermes.profiles.rules._compute import faster, longest, named, of_device, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import event_cost, has_device
from hermes.profiles.rules.gain_messages import at_most, of_host
from hermes.profiles.rules.rule import by_share, rule

FUSIBLE = ("elementwise", "reduction")
LIMIT = Limit(
    value=0.10,
    unit="of window",
    source="docs/evidence/noise.md",
)
LEFT = Limit(
    value=0.50,
    unit="of the time remains at least if pairs of such kernels are fused: half the bytes are moved",
    source="bytes of two elementwise kernels in a row, against those of one",
)
MOST = Limit(
    value=0.50,
    unit="of a step without a device is such operators; below, the finding is a preview",
    source="docs/evidence/cmp002.md",
)
LOOP = Limit(
    value=0.05, unit="of step are calls of a loop of the program, without backward", source="docs/evidence/cpu009.md"
)
CHAIN = Limit(
    value=1 / 3,
    unit="products for each such call, on a job without a device: such calls rarely follow each other",
    source="a linear layer with its activation has 3 products and 5 such calls a step: forward, backward, sum of the "
    "bias's gradient, two updates",
)


@rule(
    "CMP002",
    state="stable",
    fault=Fault.MEMORY_BOUND_KERNELS,
    cases=(
        "CMP-23",
        "CMP-37",
        "CMP-35",
        "CMP-17",
        "CMP-18",
        "CMP-19",
        "CMP-21",
        "CMP-22",
        "CMP-32",
        "CMP-36",
        "MEM-10",
        "ENV-12",
    ),
)
def unfused(
    job: Job,
    host_steps: Rows[StepHost],
    events: Rows[HostEvents],
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    named_rows: Rows[Unfused],
    misplaced: Rows[VectorOnMatrix],
    again: Rows[CalledAgain],
) -> Iterator[Loss]:
    """At most one finding, of elementwise kernels and reductions that could be fused."""
    left = _left(ops, named_rows, misplaced)
    found = operators(job, ops, computes, COST, LIMIT, lambda row: left * _moving(row))
    if found is None:
        return
    worst = longest(ops, _moving)
    alone = not has_device(job, found.worst.rank)
    if alone and _products(ops) > CHAIN.value:
        return
    own = _own(job, host_steps, events, found.worst.rank) if alone else 1.0
    if not by_share(LIMIT, found.share * own):
        return
    # A compiler unrolls a loop of the program call by call: making one call of many comes first.
    looped = any(by_share(LOOP, row.ns / found.worst.window_ns) for row in again.of(found.worst.rank))
    won = round(found.cost_ns * (1 - LEFT.value) * own)
    yield Loss(
        message=elementwise(share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=won, high_ns=won, method=of_host(when=PAIRS), basis="replayed")
        if alone
        else Gain(low_ns=0, high_ns=won, method=at_most(when=PAIRS)),
        confidence=confidence("CMP002.no_device" if alone else "CMP002"),
        assumed=alone,
        state="preview" if alone and (looped or not by_share(MOST, found.share * own)) else "stable",
        evidence=(*found.evidence, *shown(worst, _moving)),
        replay=faster(ops, lambda row: left * _moving(row) * (1 - LEFT.value)),
        actions=(FUSED_OPERATORS,) if of_device(job, found.ranks).fused else _COMPILE,
    )


def _left(ops: Rows[OperatorCost], named_rows: Rows[Unfused], misplaced: Rows[VectorOnMatrix]) -> float:
    """The share of these kernels that no other finding names: kernels of a known pattern, or on the wrong core."""
    whole = sum(map(_moving, ops))
    told = sum(row.moving_ns for row in named_rows) + sum(row.ns for row in misplaced if row.kind in FUSIBLE)
    return max(0.0, 1 - told / whole) if whole else 1.0


def _own(job: Job, host_steps: Rows[StepHost], events: Rows[HostEvents], rank: int) -> float:
    """The share of the host's operators outside the framework's recurrent layers, whose steps cannot be fused.

    Fills of gradients of pieces do not count either, because these fills are avoidable.
    """
    host = next(iter(host_steps.of(rank)), None)
    work = host.of(OPERATOR, PYTHON) if host else 0
    apart = sum(event_cost(job, events, rank, kind) or 0 for kind in (RECURRENT, PIECES))
    return 1 - min(1.0, apart / work) if work else 1.0


def _products(ops: Rows[OperatorCost]) -> float:
    """The number of products for each other call: with many products, no call has a neighbour of its kind."""
    rows = ops
    products = sum(row.calls for row in rows if row.kind in MATRIX)
    long = [row for row in rows if row.kind in FUSIBLE]
    whole = sum(row.ns for row in long)
    # Operators without notable time need not be fused.
    return products / max(1, sum(row.calls for row in long if row.ns > _SLIGHT * whole))


def _moving(row: OperatorCost) -> float:
    return float(row.ns) if row.kind in FUSIBLE else 0.0


_SLIGHT = 0.005
"""Operators below this share of the time of all operators of their kind belong to no chain."""
_COMPILE = variants(
    "cmp002.compile_model",
    {
        "_train": Fit(frameworks=("pytorch",), phase="training", unless=("torch.compile",)),
        "": Fit(frameworks=("pytorch",), unless=("torch.compile",)),
    },
    source="PyTorch documentation of torch.compile",
    cases=("CMP-23",),
)


COST = sentence("cmp002.cost")
PAIRS = sentence("cmp002.pairs")


@message("cmp002.elementwise")
def elementwise(*, share: Share) -> None:
    """Elementwise kernels, which only move bytes, take much of the step."""
