"""The steps of an input alone: what is needed to follow or replay one, without the rest of the analysis."""

from __future__ import annotations

from hermes.analyze.breakdown import step_splits
from hermes.analyze.measures import StepSplit
from hermes.workflow.communication import Exchange
from hermes.workflow.load import Loaded, RankData
from hermes.workflow.paths import arrivals_of, rows_of

_KERNEL = ("rank", "component", "start_ns", "dur_ns", "step")
_COMM_OP = ("rank", "library", "start_ns", "dur_ns", "step")


class Steps:
    """What one light pass over the ranks tells of their steps, clocks and arrivals, as `workflow.paths.Seen` has it."""

    def __init__(self, loaded: Loaded) -> None:
        exchange = Exchange(loaded)
        self.comm_op = exchange.comm_op
        self.clocks = exchange.clocks
        self.arrivals = arrivals_of(exchange.comm_op, exchange.peers, exchange.clocks)
        self.splits: list[StepSplit] = []
        self.vendors: dict[int, str] = {}
        for rank in loaded.ranks:
            self.vendors[rank.rank] = vendor_of(rank)
            self.splits += splits_of(rank)
        self.rows = rows_of(loaded, self.vendors)


def vendor_of(rank: RankData) -> str:
    """`ascend`, `nvidia`, `amd` or `cpu`."""
    return str(rank.table("rank", "vendor").item(0, 0))


def splits_of(rank: RankData) -> tuple[StepSplit, ...]:
    """The steps of one rank, split exactly."""
    tables = rank.table("kernel", *_KERNEL), rank.table("comm_op", *_COMM_OP)
    return step_splits(vendor_of(rank), rank.table("step"), *tables)
