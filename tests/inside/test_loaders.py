"""What a capture is told of loaders: padding in the batches that they hand out, and how often workers were started."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.inside.error_guard import Border, silent
from hermes.inside.monitor.loaders import Loaders, keep, padding_of, told_of
from hermes.inside.monitor.patches import Patches
from hermes.inside.monitor.step_meter import StepMeter

pytestmark = pytest.mark.live


class Rows:
    """What a look needs of a tensor of whole numbers."""

    is_cpu, dtype = True, "torch.int64"

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows, self.shape = rows, (len(rows), len(rows[0]))

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.rows[part])

    def tolist(self) -> list[list[int]]:
        return self.rows


def text(length: int, width: int = 16, first: int = 5) -> list[int]:
    """So many words, and zeros behind them."""
    return [*range(first, first + length), *[0] * (width - length)]


TEXTS = [text(4), text(8, first=7), text(16, first=9), text(4, first=3)]
MASK = [[int(word > 0) for word in row] for row in TEXTS]


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        (TEXTS, 0.5),
        ([row[::-1] for row in TEXTS], 0.5),
        (MASK, 0.5),
        ([text(16), text(16, first=7)], 0.0),
        # One word more or less at an end is chance.
        ([text(15), text(16, first=7)], 0.0),
        # Types of tokens, all of one kind, say nothing of padding.
        ([[1] * 16, [1] * 16], None),
    ],
)
def test_padding_is_what_repeats_to_the_end_of_rows(rows: list[list[int]], share: float | None) -> None:
    assert padding_of(rows) == share


def test_of_tensors_of_one_shape_the_least_padding_counts() -> None:
    labels = [[-100] * 12 + row[:4] for row in TEXTS]
    kinds, scores = [[0] * 16 for _ in TEXTS], [[1], [2], [1], [3]]
    kept: list[Any] = []
    keep(kept, {"input_ids": Rows(TEXTS), "labels": Rows(labels), "token_type_ids": Rows(kinds), "y": Rows(scores)})
    keep(kept, (Rows(TEXTS[:2]), [Rows(scores)]))
    keep(kept, None)
    assert told_of(kept) == {"batches": 2, "batch_samples": 3, "batch_tokens": 96, "batch_padding": 32 + 20}
    assert told_of([[], []]) == {}


def test_batches_are_kept_only_while_somebody_asks() -> None:
    meter = StepMeter()
    loaders = Loaders(meter)
    assert loaders.told() == {}
    loaders.begin()
    assert meter.kept == []
    loaders.end()
    assert meter.kept is None


@pytest.mark.parametrize("stay", [False, True])
def test_starts_of_workers_are_counted_with_the_waits_for_their_first_batches(stay: bool) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install --group torch")
    meter = StepMeter()
    loaders, patches = Loaders(meter), Patches(meter, Border(silent))
    data = torch.utils.data.TensorDataset(torch.arange(8))
    many = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, persistent_workers=stay)
    none = torch.utils.data.DataLoader(data, batch_size=4)
    patches.install(collectives=False)
    try:
        for _ in range(3):
            meter.count += len([*many]) + len([*none])
    finally:
        patches.remove()
    told = loaders.told()
    assert told["loader_starts"] == (1 if stay else 3)
    assert 0 < told["loader_start_ns"] * 12 <= meter.data_ns


def test_starts_count_for_the_last_steps_where_there_are_some_and_else_for_all() -> None:
    meter = StepMeter()
    loaders = Loaders(meter)
    for count, ns in ((2, 100), (8, 300)):
        meter.count = count
        meter.started(ns - 40)
        meter.first_batch(40)
    meter.count = 10
    assert loaders.told(5) == {"loader_starts": 1, "loader_start_ns": 60}
    assert loaders.told(1) == {"loader_starts": 2, "loader_start_ns": 40}
