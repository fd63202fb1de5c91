"""Forward and backward passes of micro-batches, told from launches, sends and receives."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.structure.micro_batch_passes import FLOW, HOST_OP, KERNEL, PassRows, passes

Call = tuple[str, str, int, int, int, int | None, int | None]
"""`kind, name, tid, start, length, sequence, forward_tid`, times in microseconds."""
FORWARD: Call = ("op", "aten::linear", 1, 0, 10, 7, None)
BACKWARD: Call = ("op", "AddmmBackward0", 2, 20, 10, 7, 1)


def kernels(*spans: tuple[int, int, int]) -> pl.DataFrame:
    """Kernels by `(start, length, launched at)`; each was launched by the call of its own number."""
    rows = [
        (at, "compute", 1, 1_000 * start, 1_000 * length, at, 1_000 * asked)
        for at, (start, length, asked) in enumerate(spans)
    ]
    return pl.DataFrame(rows, schema=_schema("kernel", KERNEL), orient="row")


def calls(*told: Call, launches: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """Calls, and launches of the runtime by `(tid, at)` in the order of the kernels."""
    rows = [
        (kind, name, 1, tid, 1_000 * start, 1_000 * length, None, sequence, forward)
        for kind, name, tid, start, length, sequence, forward in told
    ]
    rows += [
        ("runtime", "launch", 1, tid, 1_000 * at, 100, number, None, None) for number, (tid, at) in enumerate(launches)
    ]
    return pl.DataFrame(rows, schema=_schema("host_op", HOST_OP), orient="row")


def moves(*told: tuple[str, int, int]) -> pl.DataFrame:
    rows = [(op, 1_000 * start, 1_000 * length) for op, start, length in told]
    return pl.DataFrame(rows, schema={"op": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64}, orient="row")


def boxes(kernel: pl.DataFrame, host_op: pl.DataFrame, passed: pl.DataFrame) -> list[tuple[str, int, int]]:
    rows = PassRows(kernel=kernel, host_op=host_op, flow=pl.DataFrame(schema=_schema("flow", FLOW)))
    return [(one.kind, one.start_ns // 1_000, one.end_ns // 1_000) for one in passes(rows, passed)]


def _schema(table: str, names: Sequence[str]) -> dict[str, pl.DataType]:
    return {name: kind for name, kind in schema_of(TABLES[table]).items() if name in names}


def test_what_autograd_launched_is_the_backward_pass_and_what_it_numbered_the_forward_one() -> None:
    work = kernels((30, 5, 1), (36, 4, 2), (50, 8, 21))
    host = calls(FORWARD, BACKWARD, launches=[(1, 1), (1, 2), (2, 21)])
    assert boxes(work, host, moves()) == [("forward", 30, 40), ("backward", 50, 58)]


def test_a_send_ends_a_pass_and_so_does_a_receive_that_was_waited_for() -> None:
    work = kernels((30, 5, 1), (36, 5, 2), (50, 5, 3))
    host = calls(FORWARD, launches=[(1, 1), (1, 2), (1, 3)])
    assert boxes(work, host, moves(("send", 35, 3), ("recv", 42, 6))) == [
        ("forward", 30, 35), ("forward", 36, 41), ("forward", 50, 55),
    ]  # fmt: skip


def test_a_receive_that_ends_beside_a_kernel_ends_no_pass() -> None:
    work = kernels((30, 10, 1), (40, 5, 2))
    host = calls(FORWARD, launches=[(1, 1), (1, 2)])
    assert boxes(work, host, moves(("recv", 32, 3))) == [("forward", 30, 45)]


def test_without_numbers_of_autograd_ranges_that_are_named_after_passes_tell() -> None:
    work = kernels((30, 5, 1), (50, 8, 21))
    ranges: tuple[Call, ...] = (
        ("mark", "forward_step", 1, 0, 10, None, None),
        ("mark", "mb0 backward-compute", 1, 20, 10, None, None),
    )
    # Autograd launches on a thread of its own, while the range is open on another.
    host = calls(*ranges, launches=[(1, 1), (2, 21)])
    assert boxes(work, host, moves()) == [("forward", 30, 35), ("backward", 50, 58)]


def test_without_either_work_between_transfers_is_of_no_pass() -> None:
    work = kernels((30, 5, 1), (50, 8, 21))
    host = calls(("mark", "forwarded mail", 1, 0, 10, None, None), launches=[(1, 1), (2, 21)])
    assert boxes(work, host, moves(("send", 35, 2))) == [("compute", 30, 35), ("compute", 50, 58)]


def test_what_comes_between_numbered_calls_is_of_the_pass_around_it_and_what_comes_last_of_none() -> None:
    work = kernels((30, 2, 1), (33, 2, 12), (36, 2, 2), (39, 2, 13))
    host = calls(FORWARD, launches=[(1, 1), (1, 12), (1, 2), (1, 13)])
    assert boxes(work, host, moves()) == [("forward", 30, 38), ("compute", 39, 41)]


def test_an_optimizer_that_waits_is_not_drawn_as_if_it_computed() -> None:
    work = kernels((30, 2, 1), (80, 2, 2))
    host = calls(("mark", "Optimizer.step#AdamW.step", 1, 0, 10, None, None), launches=[(1, 1), (1, 2)])
    assert boxes(work, host, moves()) == [("optimizer", 30, 32), ("optimizer", 80, 82)]


def test_passes_that_are_overlapped_on_purpose_are_one_box_each() -> None:
    spans = [(30 + 2 * at, 2, (1 + at // 2) if at % 2 == 0 else (21 + at // 2)) for at in range(16)]
    launches = [(1, asked) if asked < 20 else (2, asked) for _, _, asked in spans]
    found = boxes(kernels(*spans), calls(FORWARD, BACKWARD, launches=launches), moves())
    assert found == [("forward", 30, 60), ("backward", 32, 62)]
