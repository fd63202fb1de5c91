"""Fetches of batches, the queues on their way, rates and copies."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from hermes.base.intervals import EMPTY
from hermes.model.host_measures import CoreLoad
from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.host import host_events
from hermes.profiles.measure.input import fetches as input_pipeline
from hermes.profiles.measure.input.fetches import InputRows
from hermes.profiles.measure.steps.breakdown import device_busy, step_splits
from hermes_testing import draw

LOADER = "torch/utils/data/dataloader.py"
NAMES = {
    "S": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "M": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "N": f"{LOADER}(625): __next__",
    "W": f"{LOADER}(1119): _try_get_data",
    "G": f"{LOADER}(1265): _get_data",
    "E": f"{LOADER}(440): __iter__",
    "R": "<built-in function open>",
    "P": "torchvision/transforms/functional.py(10): resize",
    "X": "GetNext",
}


def rows(text: str, scale_ns: int = 1_000) -> InputRows:
    tables = draw(text, scale_ns=scale_ns)
    host = tables["host_op"].with_columns(pl.col("name").replace(NAMES))
    kernel = tables["kernel"].drop_nulls("launch_ns")
    busy = device_busy(tables["kernel"], tables["comm_op"])
    return InputRows(
        rank=0,
        splits=step_splits(tables["step"], tables["kernel"], tables["comm_op"]),
        notable=host_events.notable_calls(host),
        inside=host.with_columns(pl.lit(None, dtype=pl.String).alias("frames")),
        framed=bool((host["kind"] == "python").any()),
        busy=busy,
        launched=kernel["launch_ns"].sort().to_numpy(),
        begun=kernel["start_ns"].sort().to_numpy(),
    )


def test_a_loop_that_reads_itself_is_split_into_reading_and_processing_by_frames() -> None:
    found = input_pipeline.fetches(
        rows(
            """
            rank0.step     [######][######]
            rank0.host     SSSS....SSSSSS..
            rank0.python@100 RR.P............
            rank0.compute  ..CCCC........CC
            """,
            1_000_000,
        )
    )
    assert found is not None
    assert (found.kind, found.fetches, found.steps, found.wait_ns) == ("main process", 2, 2, 10_000_000)
    assert (found.longest_ns, found.longest_step, found.long) == (6_000_000, 1, 2)
    assert found.device_free_ns == 8_000_000
    assert (found.reading_ns, found.processing_ns) == (2_000_000, 1_000_000)
    assert (found.queue_wait_ns, found.early) == (None, None)


def test_stacks_of_operators_tell_of_processing_and_nothing_of_reading() -> None:
    made = rows("""
        rank0.step     [######]
        rank0.host     SSSSSS..
        rank0.compute  ......CC
    """)
    stacked = pl.concat(
        [
            made.inside.clear(),
            made.inside.head(1).with_columns(
                kind=pl.lit("op"), name=pl.lit("aten::div"), start_ns=pl.lit(1_000, pl.Int64),
                dur_ns=pl.lit(2_000, pl.Int64), frames=pl.lit("/lib/torchvision/transforms/functional.py(3): f\nmain"),
            ),
        ]
    )  # fmt: skip
    with_stacks = InputRows(
        rank=0, splits=made.splits, notable=made.notable, inside=stacked, framed=False, busy=None,
        launched=made.launched, begun=made.begun,
    )  # fmt: skip
    found = input_pipeline.fetches(with_stacks)
    assert found is not None
    assert (found.reading_ns, found.processing_ns, found.device_free_ns, found.epochs) == (None, 2_000, None, None)


def test_frames_tell_the_wait_at_the_queue_batches_that_came_early_and_epochs() -> None:
    found = input_pipeline.fetches(
        rows("""
            rank0.step     [############]
            rank0.host     ..MMMMMMMM......
            rank0.python@9 EE.GGGGGG.......
            rank0.python@8 ...GG...........
            rank0.python@7 ...WW.W.........
            rank0.compute  ..........CC....
        """)
    )
    assert found is not None
    assert (found.kind, found.queue_wait_ns, found.early) == ("workers", 3_000, 1)
    assert (found.epochs, found.epoch_ns) == (1, 2_000)


def test_a_range_and_the_frame_around_it_are_one_fetch_and_getnext_stands_in() -> None:
    framed = rows("""
        rank0.step     [######]
        rank0.python   NNNNNN..
        rank0.host@100 .MMMM...
    """)
    assert input_pipeline.fetch_rows(framed.notable)["dur_ns"].to_list() == [4_000]
    mindspore = rows("""
        rank0.step     [######]
        rank0.host     .XX.....
    """)
    found = input_pipeline.fetches(mindspore)
    assert found is not None
    assert (found.kind, found.wait_ns) == ("not told", 2_000)


def test_a_capture_without_fetches_has_no_input() -> None:
    made = rows("""
        rank0.step     [####]
        rank0.compute  .AA...
    """)
    assert input_pipeline.fetches(made) is None
    assert input_pipeline.rates(None, made.splits, None, None) is None
    assert list(input_pipeline.queues(made, None, empty(TABLES["input_queue"]))) == []


def test_workers_needed_are_the_time_of_a_batch_times_the_demand() -> None:
    made = rows(
        """
        rank0.step     [########][########]
        rank0.host     SSSSSS....SSSSSS....
        rank0.compute  ......CCCC......CCCC
        """,
        1_000_000,
    )
    found = input_pipeline.fetches(made)
    cores = CoreLoad(rank=0, cores=8, usage=0.25, busiest=1.0)
    rates = input_pipeline.rates(found, made.splits, None, cores)
    assert rates is not None
    # Without waiting a step takes 4 ms, and a batch 6: 250 batches a second want 1.5 processes.
    assert (rates.demand, rates.supply, rates.workers_needed) == (250.0, pytest.approx(1e3 / 6), 2)
    assert (rates.cores_free, rates.cores, rates.fetching) == (6.0, 8, None)


def test_workers_that_the_loop_waits_for_each_time_give_just_what_it_takes() -> None:
    made = rows(
        """
        rank0.step     [########][########]
        rank0.host     MM........MM........
        rank0.compute  ..CCCC......CCCC....
        """,
        1_000_000,
    )
    found = input_pipeline.fetches(made)
    rates = input_pipeline.rates(found, made.splits, None, None)
    assert rates is not None
    assert (rates.demand, rates.supply, rates.workers_needed) == (125.0, 100.0, None)
    (host,) = input_pipeline.queues(made, found, empty(TABLES["input_queue"]))
    assert (host.queue, host.empty, host.samples) == ("host", 1.0, 2)


def test_the_queue_of_the_device_is_what_waits_when_the_loop_begins_to_fetch() -> None:
    made = rows("""
        rank0.step     [############]
        rank0.host     ....SS....SS....
        rank0.call@7   ABC.............
        rank0.compute  AA....BB..CC....
    """)
    (device,) = input_pipeline.queues(made, input_pipeline.fetches(made), empty(TABLES["input_queue"]))
    # Two wait at the first fetch; the last begins just when the second does.
    assert (device.queue, device.average, device.empty, device.full) == ("device", 1.0, 0.5, 0.0)


def test_the_operation_nearest_to_the_loop_fills_the_queue_of_the_host() -> None:
    rows_of = [
        {"rank": 0, "op_id": 0, "op": "Batch", "workers": 4},
        {"rank": 0, "op_id": 1, "op": "Map", "workers": 8, "queue_size": 16, "queue_usage": 0.9, "parent_id": 0},
        {"rank": 0, "op_id": 2, "op": "Reader", "workers": 2, "queue_size": 16, "queue_empty": 0.8, "parent_id": 1},
    ]
    table = pl.DataFrame(rows_of, schema=empty(TABLES["input_queue"]).schema)
    made = rows("""
        rank0.step     [####]
        rank0.compute  .AA...
    """)
    assert [(row.queue, row.name, row.usage, row.empty) for row in input_pipeline.queues(made, None, table)] == [
        ("host", "Map", 0.9, None),
        ("data", "Reader", None, 0.8),
    ]


def test_copies_tell_where_they_come_from() -> None:
    kernel = pl.DataFrame(
        {
            "component": ["copy", "copy", "copy", "compute"],
            "direction": ["h2d", "h2d", "d2h", None],
            "name": ["Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH", "mm"],
            "start_ns": [0, 20, 50, 5],
            "dur_ns": [10, 10, 5, 10],
            "bytes": [100, 300, 7, None],
        }
    )
    found = input_pipeline.copies_in(0, kernel, EMPTY)
    assert found is not None
    assert (found.copies, found.bytes, found.time_ns, found.pageable_bytes) == (2, 400, 20, 100)
    assert np.array_equal([found.exposed_ns], [20])
    assert input_pipeline.copies_in(0, kernel.tail(2), EMPTY) is None
