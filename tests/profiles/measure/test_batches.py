"""Batches of inference by phase: what the name of a range says of them."""

from __future__ import annotations

import polars as pl

from hermes.model.service_measures import Batches
from hermes.profiles.measure.structure.batches import batches

_NAMED = {"name": str, "domain": str, "pid": int, "tid": int, "start_ns": int, "dur_ns": int, "step": int}
_ASKED = {"pid": int, "tid": int, "start_ns": int, "dur_ns": int}
_NODES = {"kind": str, "name": str, **_ASKED, "sequence": int, "forward_tid": int}


def found(names: dict[str, int], *asked: tuple[int, int]) -> list[Batches]:
    """Batches of these names and lengths, one after the other from 0; work of so many ns asked for at a moment."""
    rows, start = [], 0
    for name, length in names.items():
        rows.append((name, None, 1, 1, start, length, None))
        start += length
    named = pl.DataFrame(rows, schema=_NAMED, orient="row")
    work = pl.DataFrame([(1, 1, at, ns) for at, ns in asked], schema=_ASKED, orient="row")
    return list(batches(0, named, work, pl.DataFrame(schema=_NODES)))


def test_a_batch_is_prefill_decode_or_both() -> None:
    rows = found(
        {"execute_context_2(1776)_generation_0(0)": 100, "execute_context_0(0)_generation_8(8)": 20,
         "execute_context_0(0)_generation_9(9)": 30, "execute_context_1(512)_generation_7(7)": 60},
        (10, 70), (105, 5), (130, 6), (160, 40),
    )  # fmt: skip
    assert [(row.phase, row.batches, row.requests, row.tokens, row.host_ns, row.device_ns) for row in rows] == [
        ("prefill", 1, 2, 1776, 100, 70), ("decode", 2, 17, 17, 50, 11), ("mixed", 1, 8, 519, 60, 40),
    ]  # fmt: skip


def test_further_numbers_of_newer_versions_are_no_tokens() -> None:
    (row,) = found({"execute_context_1(888_788544)_generation_0(0)": 10})
    assert (row.phase, row.requests, row.tokens) == ("prefill", 1, 888)


def test_another_range_is_no_batch() -> None:
    assert found({"execute_context_menu": 10, "forward": 5}) == []
