"""Finds embeddings whose gradient is as large as the table, though a step reads few rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Count, Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cost.tensors import elements_of, per_tensor
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import SHARDED_TABLES, TORCH_TRAINS
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import DenseTable
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of window", source="docs/evidence/cmp016.md")
LEAST = Limit(value=0.1, unit="of the cost of a table is won at least", source="docs/evidence/cmp016.md")
MOST = Limit(value=0.99, unit="of the cost of a table is won at most", source="docs/evidence/cmp016.md")
_INDEX = 32
"""The most that an index of a sparse gradient costs, in rows of a dense gradient: `docs/evidence/cmp016.md`."""
_INDEX_APART = 8
"""The most that an index costs if a processor runs the optimizer as single operators, with many table passes."""
_FUSED = "_fused_"
_CALLS = 262_144
"""The most that the calls of a sparse gradient cost, in numbers of a dense gradient: `docs/evidence/cmp016.md`."""
_KINDS = ("elementwise", "reduction", "optimizer", "copy", "cast")


@rule("CMP015", state="stable", fault=Fault.DENSE_TABLE_GRADIENTS, cases=("CMP-44", "CMP-42"))
def dense_embedding_gradient(
    job: Job, tables: Rows[DenseTable], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding, of dense gradients of large embedding tables."""
    price = {rank: _price(rank, job, ops) for rank in {one.rank for one in tables}}
    large = _large(tables, ops, price)
    every = {rank: {_size(one): 1.0 for one in own} for rank, own in large.items()}
    sure = {rank: {_size(one): _won(one, price[rank]) for one in own} for rank, own in large.items()}

    def part(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, every)

    def saved(row: OperatorCost) -> float:
        return row.ns * _of_tables(row, sure)

    found = operators(job, ops, computes, COST_OF_TABLES, LIMIT, part)
    if found is None:
        return
    worst = longest(ops, part)
    least = sum(map(saved, worst)) / sum(map(part, worst))
    table = max(large[found.worst.rank], key=lambda one: (one.rows * one.width, one.rows))
    yield Loss(
        message=as_large_as_tables(share=percents(found.share), used=round(table.used), rows=table.rows),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=round(found.cost_ns * MOST.value),
            method=only_rows_read(rows=price[table.rank]),
        ),
        confidence=confidence("CMP015.table_gradients"),
        evidence=(
            *found.evidence,
            Evidence(
                what=table_of(size=f"{table.rows} x {table.width}"),
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
    action(
        "cmp015.sparse_gradients",
        source="PyTorch documentation of torch.nn.Embedding and torch.optim.SparseAdam; pytorch/pytorch#22037",
        fit=TORCH_TRAINS,
        cases=("CMP-44", "CMP-42"),
    ),
    *SHARDED_TABLES,
)


def _price(rank: int, job: Job, ops: Rows[OperatorCost]) -> int:
    """The most that an index of a sparse gradient costs on a rank, in rows of a dense gradient."""
    fused = any(_FUSED in row.operator for row in ops if rank in row.ranks)
    return _INDEX if fused or job.vendors.get(rank) != "cpu" else _INDEX_APART


def _won(table: DenseTable, index: int) -> float:
    """The least share of a table's cost that is saved; below 0, more may be lost than saved."""
    return 1 - index * table.used / table.rows - _CALLS / (table.rows * table.width)


def _size(table: DenseTable) -> str:
    """The size of a table, written as a shape."""
    return f"{table.rows},{table.width}"


def _large(
    tables: Rows[DenseTable], ops: Rows[OperatorCost], price: Mapping[int, int]
) -> Mapping[int, tuple[DenseTable, ...]]:
    """For each rank, tables with so few rows read that a sparse gradient saves time, and that no product reads."""
    products = {shape for row in ops if row.kind in MATRIX for shape in per_tensor(row.shapes)}
    found: dict[int, tuple[DenseTable, ...]] = {}
    for one in tables:
        elsewhere = products.intersection((_size(one), f"{one.width},{one.rows}"))
        if by_share(LEAST, _won(one, price[one.rank])) and not elsewhere:
            found[one.rank] = (*found.get(one.rank, ()), one)
    return found


def _of_tables(row: OperatorCost, weights: Mapping[int, Mapping[str, float]]) -> float:
    """The share of a call's elements that belong to tables, each weighted by the weight of its size."""
    own = {size: weight for rank in row.ranks for size, weight in weights.get(rank, {}).items()}
    if row.kind not in _KINDS or not own:
        return 0.0
    elements = [(shape, elements_of(shape)) for shape in per_tensor(row.shapes)]
    whole = sum(count for _, count in elements)
    return sum(count * own.get(shape, 0.0) for shape, count in elements) / whole if whole else 0.0


COST_OF_TABLES = sentence("cmp015.cost_of_tables")


@message("cmp015.as_large_as_tables")
def as_large_as_tables(*, share: Share, used: Count, rows: Count) -> None:
    """Gradients are as large as their tables, and few rows are used."""


@message("cmp015.only_rows_read")
def only_rows_read(*, rows: Count) -> None:
    """The least gain of sparse gradients."""


@message("cmp015.table_of")
def table_of(*, size: Name) -> None:
    """The gain for one table."""
