"""Batch norm over ranks: its layers, and the collectives that they launch."""

from __future__ import annotations

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, window
from hermes.profiles.measure.communication.synchronised_norms import NormSync, norm_sync

_CALL = {"name": pl.String, "pid": pl.Int64, "tid": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64}
_OP = {"start_ns": pl.Int64, "dur_ns": pl.Int64, "launch_ns": pl.Int64}


def calls(*rows: tuple[str, int, int]) -> pl.DataFrame:
    return pl.DataFrame([(name, 1, 1, start, length) for name, start, length in rows], schema=_CALL, orient="row")


def found(of: pl.DataFrame, *ops: tuple[int, int, int | None], compute: Intervals = EMPTY) -> NormSync | None:
    return norm_sync(0, 5, of, pl.DataFrame(list(ops), schema=_OP, orient="row"), compute)


STEP = calls(("SyncBatchNorm", 100, 50), ("aten::conv2d", 160, 20), ("SyncBatchNorm", 200, 50),
             ("SyncBatchNormBackward", 400, 50))  # fmt: skip


def test_collectives_that_a_layer_launches_count_forward_and_backward() -> None:
    assert found(STEP, (1_000, 30, 120), (1_100, 30, 249), (1_200, 30, 400)) == NormSync(
        rank=0, step=5, layers=2, collectives=3, comm_ns=90, exposed_ns=90
    )


def test_a_reduction_of_gradients_is_none_of_them() -> None:
    made = found(STEP, (1_000, 30, 120), (1_100, 900, 250), (2_000, 900, 99), (3_000, 900, None))
    assert made is not None
    assert (made.collectives, made.comm_ns) == (1, 30)


def test_what_runs_beside_compute_is_not_exposed() -> None:
    made = found(STEP, (1_000, 30, 120), compute=window(990, 1_020))
    assert made is not None
    assert (made.comm_ns, made.exposed_ns) == (30, 10)


def test_the_backward_function_of_a_layer_is_no_layer_and_without_a_layer_there_is_no_row() -> None:
    assert found(calls(("SyncBatchNormBackward", 400, 50), ("aten::batch_norm", 1, 2)), (1_000, 30, 420)) is None
