"""The gradient of an embedding is as large as its table.

## What it detects

Operators on tensors of exactly the size of a table that embeddings look rows up in, other than the lookups themselves:
what fills its gradient with zeros, adds gradients up, measures their norm and applies them. Together more than a
twentieth of the step, where the gradient is dense, and the table so large that a sparse one surely costs less: well
over 32 rows for each index of a lookup, over 8 where a processor runs the optimizer as single operators, and over
262,144 numbers. Calls with lists of tensors count by the elements in
them that are of such tables. It needs shapes; of lists of more than 30 tensors PyTorch records none, and the cost is
then only a part of what it is.

## Why it costs you

A batch changes the rows that it read. A dense gradient has all rows: in each step as many zeros as the table has
numbers are written, read again, and added to a table, and to an optimizer's moments, that they hardly change.

## When it is not a problem

When other gradients reach all rows anyway, as where the table is the output layer, too: tables of a size that a
product reads are left out. When moments have to decay, or weights to shrink, in rows that no batch reads.

## What to do

Give the embedding sparse gradients, and its table an optimizer that takes them; let tables that are split over ranks
be updated where they are read (TorchRec, on Ascend the Rec SDK).

## How to check

Profile the same step again: `embedding_sparse_backward` takes the place of `embedding_dense_backward`, and no operator
on the size of the table is among the longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cost.tensors import elements_of, per_tensor
from hermes.knowledge.cures import SHARDED_TABLES
from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import DenseTable
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of window", source="docs/evidence/cmp016.md")
LEAST = Limit(value=0.1, unit="of what a table costs is won, at least", source="docs/evidence/cmp016.md")
MOST = Limit(value=0.99, unit="of what a table costs is won, at most", source="docs/evidence/cmp016.md")
_INDEX = 32
"""What an index of a sparse gradient costs at most, in rows of a dense one: `docs/evidence/cmp016.md`."""
_INDEX_APART = 8
"""The same where a processor runs the optimizer as single operators, which pass over the table again and again."""
_FUSED = "_fused_"
_CALLS = 262_144
"""What the calls of a sparse gradient cost at most, in numbers of a dense one: `docs/evidence/cmp016.md`."""
_KINDS = ("elementwise", "reduction", "optimizer", "copy", "cast")


@rule("CMP016", state="stable", fault=Fault.DENSE_TABLE_GRADIENTS, cases=("CMP-44", "CMP-42"))
def dense_embedding_gradient(
    job: Job, tables: Rows[DenseTable], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""
    price = {rank: _price(rank, job, ops) for rank in {one.rank for one in tables}}
    large = _large(tables, ops, price)
    every = {rank: {_size(one): 1.0 for one in own} for rank, own in large.items()}
    sure = {rank: {_size(one): _won(one, price[rank]) for one in own} for rank, own in large.items()}

    def part(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, every)

    def saved(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, sure)

    found = operators(job, ops, computes, "gradients as large as their tables", LIMIT, part)
    if found is None:
        return
    worst = longest(ops, part)
    least = sum(map(saved, worst)) / sum(map(part, worst))
    table = max(large[found.worst.rank], key=lambda one: (one.rows * one.width, one.rows))
    yield Loss(
        message=f"Gradients as large as their tables take {found.share:.0%} of the step; a lookup reads "
        f"{table.used:,.0f} of {table.rows:,} rows",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=round(found.cost_ns * MOST.value),
            method="a gradient has only the rows that were read, and each costs at most as much as "
            f"{price[table.rank]} of a dense one",
        ),
        confidence=confidence("CMP016"),
        evidence=(
            *found.evidence,
            Evidence(
                what=f"a table of {table.rows} x {table.width}",
                value=round(_won(table, price[table.rank]), 4),
                unit=LEAST.unit,
                threshold=LEAST.value,
                where=f"rank {table.rank}, a mean of {table.used:.0f} indices of a lookup",
            ),
            *shown(worst, part),
        ),
        replay=faster(ops, saved),
        actions=_ACTIONS,
    )


_ACTIONS = (
    Action(
        title="Give the embedding sparse gradients",
        do="nn.Embedding(n, d, sparse=True), or EmbeddingBag, and an optimizer of its own for the table that takes "
        "them: torch.optim.SGD([table.weight], lr) without momentum and weight_decay, "
        "torch.optim.SparseAdam([table.weight], lr) in place of Adam, or torch.optim.Adagrad. All other parameters "
        "keep their optimizer; both step.",
        verify="embedding_sparse_backward takes the place of embedding_dense_backward; fill_ and the optimizer's "
        "operators on the size of the table are gone.",
        risk="Few optimizers take sparse gradients: AdamW, RMSprop and fused ones do not, nor does weight_decay or "
        "clip_grad_norm_. SparseAdam leaves moments and weights of rows that were not read as they are, Adam moves "
        "them on: training goes another way. Over ranks gloo sums sparse gradients, other backends mostly do not.",
        source="PyTorch documentation of torch.nn.Embedding and torch.optim.SparseAdam; pytorch/pytorch#22037",
    ),
    SHARDED_TABLES,
)


def _price(rank: int, job: Job, ops: Rows[OperatorCost]) -> int:
    """What an index of a sparse gradient costs at most on a rank, in rows of a dense one."""
    fused = any(_FUSED in row.operator for row in ops if rank in row.ranks)
    return _INDEX if fused or job.vendors.get(rank) != "cpu" else _INDEX_APART


def _won(table: DenseTable, index: int) -> float:
    """What is won at least of what a table costs; below 0, more may be lost than won."""
    return 1 - index * table.used / table.rows - _CALLS / (table.rows * table.width)


def _size(table: DenseTable) -> str:
    """As shapes are written."""
    return f"{table.rows},{table.width}"


def _large(
    tables: Rows[DenseTable], ops: Rows[OperatorCost], price: Mapping[int, int]
) -> Mapping[int, tuple[DenseTable, ...]]:
    """By rank the tables of which a lookup reads so few rows that a sparse gradient wins, and that no product reads."""
    products = {shape for row in ops if row.kind in MATRIX for shape in per_tensor(row.shapes)}
    found: dict[int, tuple[DenseTable, ...]] = {}
    for one in tables:
        elsewhere = products.intersection((_size(one), f"{one.width},{one.rows}"))
        if by_share(LEAST, _won(one, price[one.rank])) and not elsewhere:
            found[one.rank] = (*found.get(one.rank, ()), one)
    return found


def _of_tables(row: OperatorCost, weights: Mapping[int, Mapping[str, float]]) -> float:
    """The share of the elements of a call that are of tables, each by the weight of its size."""
    own = {size: weight for rank in row.ranks for size, weight in weights.get(rank, {}).items()}
    if row.kind not in _KINDS or not own:
        return 0.0
    elements = [(shape, elements_of(shape)) for shape in per_tensor(row.shapes)]
    whole = sum(count for _, count in elements)
    return sum(count * own.get(shape, 0.0) for shape, count in elements) / whole if whole else 0.0
