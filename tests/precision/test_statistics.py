"""Statistics that torch computes beside the numbers that numpy has of the same elements."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from hermes.inside.record.layout import CHUNK
from hermes.inside.record.mindspore_values import Numbers

pytestmark = [pytest.mark.live, pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")]

LENGTHS = [1, 7, 8, 9, 130, 512, 513, 4099, CHUNK - 1, CHUNK, CHUNK + 3, CHUNK + 8, 3 * CHUNK, 17 * CHUNK + 11]
KINDS = ["float32", "float64", "bfloat16", "int32", "bool", "complex64"]
BAD = {"nan": [np.nan], "inf": [np.inf], "both ends": [np.inf, -np.inf], "all": [np.nan, np.inf, -np.inf]}


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def statistics(request: pytest.FixtureRequest) -> Any:
    torch = pytest.importorskip("torch")
    from hermes.inside.record.stats import Statistics

    threads = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield Statistics(torch, lambda line, row: line.update(stats=row))
    torch.set_num_threads(threads)


def drawn(length: int, seed: int = 0) -> Any:
    """Numbers of which a third are zero."""
    found = np.random.default_rng(seed).standard_normal(length).astype(np.float32) * 3
    found[np.random.default_rng(seed + 1).random(length) < 0.3] = 0
    return found


def rows(statistics: Any, tensors: list[Any]) -> list[list[float]]:
    lines: list[dict[str, Any]] = [{} for _ in tensors]
    for tensor, line in zip(tensors, lines, strict=True):
        statistics.of(tensor, line)
    statistics.collect()
    return [line["stats"] for line in lines]


def same(found: list[float], elements: Any) -> None:
    expected = Numbers(np).row(np.ascontiguousarray(elements))
    assert expected is not None
    size = expected[3] if np.isfinite(expected[3]) else np.linalg.norm(elements[np.isfinite(elements)])
    np.testing.assert_array_equal(found[4:7], expected[4:7])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * float(size))


@pytest.mark.parametrize("length", LENGTHS)
def test_the_row_of_a_tensor_is_that_of_its_elements(statistics: Any, length: int) -> None:
    import torch

    for kind in KINDS:
        tensor = torch.from_numpy(drawn(length)).to(getattr(torch, kind))
        (found,) = rows(statistics, [tensor])
        same(found, (tensor.float() if kind == "bfloat16" else tensor).numpy())


@pytest.mark.parametrize("length", [5, 40, 4099, 2 * CHUNK + 9])
@pytest.mark.parametrize("bad", list(BAD))
def test_what_is_not_finite_is_counted_and_hides_no_zero(statistics: Any, length: int, bad: str) -> None:
    import torch

    elements = drawn(length)
    for at, one in enumerate(BAD[bad]):
        elements[-1 - at] = one
    (found,) = rows(statistics, [torch.from_numpy(elements)])
    same(found, elements)


def test_a_row_does_not_depend_on_what_waits_beside_it(statistics: Any) -> None:
    import torch

    kept = [drawn(length, length) for length in (128, 600, 128, CHUNK + 1, 128)]
    alone = [rows(statistics, [torch.from_numpy(one)])[0] for one in kept]
    many = [drawn(one, seed) for seed in range(400) for one in (128, 600, 9)]
    beside = rows(statistics, [torch.from_numpy(one) for one in (*many, *kept, *many)])
    assert beside[len(many) : len(many) + len(kept)] == alone


def test_a_tensor_may_be_written_over_while_its_row_waits(statistics: Any) -> None:
    import torch

    for length in (100, 1000, CHUNK + 1):
        tensor = torch.from_numpy(drawn(length))
        line: dict[str, Any] = {}
        statistics.of(tensor, line)
        tensor.fill_(7)
        statistics.collect()
        same(line["stats"], drawn(length))


def test_a_tensor_of_more_chunks_than_rows_of_the_table_has_a_row(
    statistics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr("hermes.inside.record.stats._ROWS", 3)
    elements = [drawn(length) for length in (600, 2 * CHUNK, 700, 5 * CHUNK + 3, 800, 6 * CHUNK)]
    for found, one in zip(rows(statistics, [torch.from_numpy(one) for one in elements]), elements, strict=True):
        same(found, one)


def test_rows_that_a_long_tensor_has_added_to_the_table_are_used_afterwards(
    statistics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr("hermes.inside.record.stats._ROWS", 3)
    elements = [drawn(length) for length in (6 * CHUNK, 600, 700, 800, 900, CHUNK + 3, 1000, CHUNK)]
    for found, one in zip(rows(statistics, [torch.from_numpy(one) for one in elements]), elements, strict=True):
        same(found, one)
