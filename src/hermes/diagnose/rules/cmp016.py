"""The gradient of an embedding is as large as its table.

## What it detects

Operators on tensors of exactly the size of a table that embeddings look rows up in, other than the lookups themselves:
what fills its gradient with zeros, adds gradients up, measures their norm and applies them. Together more than a
twentieth of the step, where the gradient is dense, and the table so large that a sparse one surely costs less: well
over 32 rows for each index of a lookup, and over 262,144 numbers. Calls with lists of tensors count by the elements in
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

from hermes.analyze.compute_measures import OperatorCost
from hermes.analyze.tensor_measures import DenseTable
from hermes.cost.tensors import elements_of
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold, by_share
from hermes.diagnose.rules._compute import faster, fresh, longest, named, operators, shown
from hermes.knowledge.operators import MATRIX

LIMIT = Threshold(value=0.05, unit="of window", source="docs/evidence/cmp016.md")
LEAST = Threshold(value=0.1, unit="of what a table costs is won, at least", source="docs/evidence/cmp016.md")
MOST = Threshold(value=0.99, unit="of what a table costs is won, at most", source="docs/evidence/cmp016.md")
_INDEX = 32
"""What an index of a sparse gradient costs at most, in rows of a dense one: `docs/evidence/cmp016.md`."""
_CALLS = 262_144
"""What the calls of a sparse gradient cost at most, in numbers of a dense one: `docs/evidence/cmp016.md`."""
_KINDS = ("elementwise", "reduction", "optimizer", "copy", "cast")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    tables = _large(measures)
    every = {rank: {_size(one): 1.0 for one in own} for rank, own in tables.items()}
    sure = {rank: {_size(one): _won(one) for one in own} for rank, own in tables.items()}

    def part(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, every)

    def saved(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, sure)

    found = operators(measures, "gradients as large as their tables", LIMIT, part)
    if found is None:
        return
    worst = longest(measures, part)
    least = sum(map(saved, worst)) / sum(map(part, worst))
    table = max(tables[found.worst.rank], key=lambda one: (one.rows * one.width, one.rows))
    yield Finding(
        code="CMP016",
        layer="compute",
        cause="dense gradients of a table",
        title=f"Gradients as large as their tables take {found.share:.0%} of the step; a lookup reads "
        f"{table.used:,.0f} of {table.rows:,} rows",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=found.calls,
        fresh=fresh(measures, found.worst.rank, part, sum(_gradient(one) for one in tables[found.worst.rank])),
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=round(found.cost_ns * MOST.value),
            method="a gradient has only the rows that were read, and each costs at most as much as 32 of a dense one",
        ),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            Evidence(
                what=f"a table of {table.rows} x {table.width}",
                value=round(_won(table), 4),
                unit=LEAST.unit,
                threshold=LEAST.value,
                where=f"rank {table.rank}, a mean of {table.used:.0f} indices of a lookup",
            ),
            *shown(worst, part),
        ),
        replay=faster(measures, saved),
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
    Action(
        title="Update tables where they are read",
        do="torchrec.EmbeddingBagCollection with apply_optimizer_in_backward, its tables split over ranks by "
        "DistributedModelParallel: the backward pass updates the rows that were read, and no gradient is written. On "
        "Ascend: Rec SDK Torch, which has TorchRec's modules for NPUs.",
        verify="Neither a gradient nor an optimizer of the size of the table is left in the profile.",
        risk="Another library; checkpoints of tables change their form.",
        source="TorchRec documentation; Rec SDK Torch, feature overview",
    ),
)


def _won(table: DenseTable) -> float:
    """What is won at least of what a table costs; below 0, more may be lost than won."""
    return 1 - _INDEX * table.used / table.rows - _CALLS / (table.rows * table.width)


def _gradient(table: DenseTable) -> float:
    """Bytes of a dense gradient, as numbers of four bytes, where they are not kept from step to step."""
    return float(table.rows * table.width * 4)


def _size(table: DenseTable) -> str:
    """As shapes are written."""
    return f"{table.rows},{table.width}"


def _large(measures: Measures) -> Mapping[int, tuple[DenseTable, ...]]:
    """By rank the tables of which a lookup reads so few rows that a sparse gradient wins, and that no product reads."""
    products = {shape for row in measures.compute.operators if row.kind in MATRIX for shape in row.shapes.split(";")}
    found: dict[int, tuple[DenseTable, ...]] = {}
    for one in measures.host.tables:
        elsewhere = products.intersection((_size(one), f"{one.width},{one.rows}"))
        if by_share(LEAST, _won(one)) and not elsewhere:
            found[one.rank] = (*found.get(one.rank, ()), one)
    return found


def _of_tables(row: OperatorCost, weights: Mapping[int, Mapping[str, float]]) -> float:
    """The share of the elements of a call that are of tables, each by the weight of its size."""
    own = {size: weight for rank in row.ranks for size, weight in weights.get(rank, {}).items()}
    if row.kind not in _KINDS or not own:
        return 0.0
    elements = [(shape, elements_of(shape)) for shape in row.shapes.split(";")]
    whole = sum(count for _, count in elements)
    return sum(count * own.get(shape, 0.0) for shape, count in elements) / whole if whole else 0.0


RULE = Rule(code="CMP016", page=__doc__ or "", find=find, cases=("CMP-44", "CMP-42"))
