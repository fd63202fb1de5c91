"""Calls that check numbers, the functions around them, batches that are padded, and tables with dense gradients."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.host.numeric_checks import numeric_check_calls
from hermes.profiles.measure.tensors.dense_tables import dense_tables
from hermes.profiles.measure.tensors.padding import by_rank, padding, padding_share

SCHEMA = {"kind": pl.String, "name": pl.String, "pid": pl.Int64, "tid": pl.Int64, "start_ns": pl.Int64,
          "dur_ns": pl.Int64}  # fmt: skip


def calls(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    made = [(kind, name, 1, 1, start, length) for kind, name, start, length in rows]
    return pl.DataFrame(made, schema=SCHEMA, orient="row")


def found(*rows: tuple[str, str, int, int]) -> list[tuple[str, int]]:
    return numeric_check_calls(calls(*rows)).sort("start_ns").select("name", "dur_ns").rows()


STEP = ("python", "train.py(7): step", 0, 1_000)


def test_a_function_that_is_there_to_check_counts_whole() -> None:
    hook = ("python", "train.py(3): check", 100, 100)
    assert found(STEP, hook, ("op", "aten::isfinite", 110, 40)) == [("train.py(3): check", 100)]


def test_of_a_function_that_does_other_things_only_the_operator_counts() -> None:
    hook = ("python", "train.py(3): check", 100, 101)
    assert found(STEP, hook, ("op", "aten::isnan", 110, 40)) == [("aten::isnan", 40)]


@pytest.mark.parametrize("work", ["nn.Module: Linear_0", "aten::mm", "<built-in method run_backward of X object>"])
def test_a_function_that_trains_never_counts_whole(work: str) -> None:
    assert found(STEP, ("op", "aten::isinf", 100, 500), ("op", work, 700, 10)) == [("aten::isinf", 500)]


def test_a_frame_of_hermes_is_no_function_of_the_users() -> None:
    wrapper = ("python", "/home/me/src/hermes/inside/error_guard.py(72): called", 100, 50)
    assert found(STEP, wrapper, ("op", "aten::isfinite", 110, 40)) == [("aten::isfinite", 40)]


def test_tracebacks_count_by_themselves() -> None:
    frames = [
        ("python", "torch/fx/traceback.py(4): format_stack", 10, 300),
        ("python", "traceback.py(9): extract_stack", 20, 90),
    ]
    assert found(STEP, *frames) == [("torch/fx/traceback.py(4): format_stack", 300)]


def test_nothing_is_checked_where_nothing_says_so() -> None:
    assert found(STEP, ("op", "aten::is_same_size", 10, 100)) == []


def lookups(*rows: tuple[str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema={"name": pl.String, "shapes": pl.String, "dtypes": pl.String}, orient="row")


def test_padding_is_what_an_embedding_gets_beyond_what_was_there() -> None:
    table = lookups(
        ("aten::constant_pad_nd", "4,30;;", "long int;ScalarList;Scalar"),
        ("aten::constant_pad_nd", "4,10;;", "long int;ScalarList;Scalar"),
        ("aten::embedding", "100,8;4,40;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding", "512,8;1,40;;;", "float;long int;Scalar;Scalar;Scalar"),
    )
    (row,) = padding(0, table)
    assert (row.samples, row.before, row.after, padding_share(row)) == (4, 80.0, 160.0, 0.5)
    assert by_rank((row,)) == {0: row}


def test_batches_that_a_capture_looked_at_tell_of_padding_that_no_operator_made() -> None:
    told = {"batches": 2, "batch_samples": 4, "batch_tokens": 320, "batch_padding": 240}
    table = lookups(("aten::embedding", "100,8;4,40;;;", "float;long int;Scalar;Scalar;Scalar"))
    (row,) = padding(0, table, told)
    assert (row.samples, row.before, row.after, padding_share(row)) == (4, 40.0, 160.0, 0.75)
    # What no embedding gets is none.
    assert list(padding(0, table, {**told, "batch_samples": 5})) == []


def test_sequences_that_are_padded_together_are_a_batch() -> None:
    table = lookups(("aten::pad_sequence", "3;5;4;;", "TensorList;Scalar;Scalar"),
                    ("aten::embedding", "9,2;3,5;;;", "float;long int;Scalar;Scalar;Scalar"))  # fmt: skip
    (row,) = padding(0, table)
    assert (row.samples, row.before, row.after) == (3, 12.0, 15.0)


def test_images_that_are_padded_are_no_tokens() -> None:
    table = lookups(("aten::constant_pad_nd", "4,30;;", "float;ScalarList;Scalar"),
                    ("aten::embedding", "100,8;4,40;;;", "float;long int;Scalar;Scalar;Scalar"))  # fmt: skip
    assert list(padding(0, table)) == []


# Tables and their gradients -----------------------------------------------------------------------------------------


def test_a_table_is_dense_where_its_lookup_has_a_dense_backward() -> None:
    table = lookups(
        ("aten::embedding", "9000,8;4,16;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding", "9000,8;4,8;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding", "7000,4;64;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding_dense_backward", "4,16,8;4,16;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding_dense_backward", "4,8,8;4,8;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding_sparse_backward", "64,4;64;;;", "float;long int;Scalar;Scalar;Scalar"),
    )
    (row,) = dense_tables(0, table)
    assert (row.rows, row.width, row.used) == (9000, 8, 48.0)


def test_bags_of_rows_have_tables_too() -> None:
    table = lookups(
        ("aten::_embedding_bag", "9000,8;320;64;;;;;;", "float;long int;long int;Scalar;Scalar;Scalar;;Scalar;Scalar"),
        ("aten::_embedding_bag_dense_backward", "64,8;320;320;64;64;;;;;", "float;long int;long int;long int"),
    )
    (row,) = dense_tables(0, table)
    assert (row.rows, row.width, row.used) == (9000, 8, 320.0)


def test_lookups_without_shapes_or_without_a_backward_are_no_dense_tables() -> None:
    table = lookups(
        ("aten::embedding", "", ""),
        ("aten::embedding_dense_backward", "", ""),
        ("aten::embedding", "9000,8;64;;;", "float;long int;Scalar;Scalar;Scalar"),
        ("aten::embedding_dense_backward", "64,16;64;;;", "float;long int;Scalar;Scalar;Scalar"),
    )
    assert list(dense_tables(0, table)) == []
