"""MindSpore's two files on its data pipeline: one lists samples of queues, the other turns lines into columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hermes.base.say import say
from hermes.profiles.read.ascend.csvs import read_csvs
from hermes.profiles.read.table_sink import Sink

RAW = (
    "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
    "output_queue_usage_rate,sample_interval,parent_id,children_id\n"
    '0,Batch,4,,,,,10,-1,"[1]"\n'
    '1,Shuffle,1,"[20, 0, 64, 0]",21.0,64,0.328,10,0,"[2]"\n'
    '2,TFReader,2,"[64, 64]",64.0,64,1.0,10,1,\n'
)
SUMMARY = (
    "op_ids,0,1,2\nop_names,Batch,Shuffle,TFReader\nnum_workers,4,1,2\nqueue_average_size,-1,21,64\n"
    "queue_utilization_pct,-1,25,100\nqueue_empty_freq_pct,-1,50,0\nparent_id,-1,0,1\navg_cpu_pct,12.5,3,0.5\n"
    "per_batch_time,1.5\n"
)


def read(folder: Path, **files: str) -> tuple[pl.DataFrame, list[str]]:
    paths = []
    for name, text in files.items():
        paths.append(folder / f"minddata_pipeline_{name}_0.csv")
        paths[-1].write_text(text, encoding="utf-8")
    sink = Sink(folder / "out", 0)
    read_csvs(tuple(paths), sink, mindspore=True)
    return pl.read_parquet(folder / "out" / "input_queue.parquet"), [say(note.message) for note in sink.notes]


def test_the_raw_file_lists_samples_and_names_the_capacity_apart(tmp_path: Path) -> None:
    rows, notes = read(tmp_path, raw=RAW)
    assert notes == []
    columns = ("op", "workers", "queue_size", "queue_empty", "queue_full", "samples", "parent_id")
    assert rows.select(columns).rows() == [
        ("Batch", 4, None, None, None, None, None),
        ("Shuffle", 1, 64, 0.5, 0.25, 4, 0),
        ("TFReader", 2, 64, 0.0, 1.0, 2, 1),
    ]


def test_the_summary_has_an_operation_in_each_column_and_minus_one_is_none(tmp_path: Path) -> None:
    rows, notes = read(tmp_path, summary=SUMMARY)
    assert notes == []
    columns = ("op", "workers", "queue_average", "queue_usage", "queue_empty", "cpu", "parent_id")
    assert rows.select(columns).rows() == [
        ("Batch", 4, None, None, None, 0.125, None),
        ("Shuffle", 1, 21.0, 0.25, 0.5, 0.03, 0),
        ("TFReader", 2, 64.0, 1.0, 0.0, 0.005, 1),
    ]


def test_both_files_tell_of_the_same_operations(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, raw=RAW, summary=SUMMARY)
    assert rows["op_id"].to_list() == [0, 1, 2]
    assert rows.select("samples", "cpu", "queue_full").rows()[1] == (4, 0.03, 0.25)


def test_samples_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, raw=RAW.replace("[20, 0, 64, 0]", "[20, x, ..., 0]"))
    assert rows.select("samples", "queue_empty").rows()[1] == (2, 0.5)
