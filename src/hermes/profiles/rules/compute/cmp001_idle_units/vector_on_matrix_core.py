"""Elementwise work runs on the cores of the matrix unit, while the vector cores stand still."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import ONTO_VECTOR_CORES
from hermes.knowledge.vendor_traits import OF_ALL_VECTOR_CORES
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.structure.vector_work_on_matrix_cores import VectorOnMatrix
from hermes.profiles.rules._cost_by_rank import loss, percents, steps_of
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.02,
    unit="of window",
    source="advisor of msprof-analyze: losses of operators from 1 % of the step on; half of this time is lost",
)
_SHOWN = 3


@rule("CMP001", state="preview", fault=Fault.MATRIX_UNITS_UNDERUSED, cases=("CMP-38",))
def vector_on_matrix_cores(job: Job, rows: Rows[VectorOnMatrix]) -> Iterator[Loss]:
    """At most one finding, of elementwise work on matrix cores."""
    by_rank: dict[int, int] = {}
    for row in rows:
        by_rank[row.rank] = by_rank.get(row.rank, 0) + row.ns
    found = loss(
        job,
        COST_OF_VECTORS,
        LIMIT,
        lambda split: by_rank[split.rank] // steps_of(job, (split.rank,)) if split.rank in by_rank else None,
    )
    if found is None:
        return
    worst = sorted((row for row in rows if row.rank == found.worst.rank), key=lambda row: -row.ns)[:_SHOWN]
    won = round(found.cost_ns * (1 - OF_ALL_VECTOR_CORES.value))
    yield Loss(
        message=vector_work(share=percents(found.share)),
        ranks=found.ranks,
        blames=tuple(Blame(row.operator, "operator") for row in worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=won, method=at_most(when=TWICE_AS_MANY)),
        confidence=confidence("CMP001.wrong_core"),
        evidence=(
            *found.evidence,
            *(
                Evidence(what=on_core(operator=row.operator, core=row.core), value=float(row.ns), unit="ns",
                         threshold=None, where=f"rank {row.rank}, {row.calls} kernels")
                for row in worst
            ),
        ),
        actions=(
            ONTO_VECTOR_CORES,
        ),
    )  # fmt: skip


COST_OF_VECTORS = sentence("cmp001.cost_of_vectors")
TWICE_AS_MANY = sentence("cmp001.twice_as_many")


@message("cmp001.vector_work")
def vector_work(*, share: Share) -> None:
    """Elementwise work runs on matrix cores."""


@message("cmp001.on_core")
def on_core(*, operator: Name, core: Name) -> None:
    """The time of one elementwise operator on matrix cores."""
