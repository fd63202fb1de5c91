"""Snapshots of real trainings: what two setups differ in is an error, also where msProbe's sheets pass."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.say import say
from hermes.precision.api import Difference, check

pytestmark = pytest.mark.live


def taken(out: Path, *, seed: int = 0, flipped: bool = False, bias: bool = True, draws: int = 0) -> Path:
    torch = pytest.importorskip("torch")
    from hermes.inside.snapshot import Snapshot

    torch.manual_seed(seed)
    model = torch.nn.Linear(6, 3, bias=bias)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = torch.arange(24.0).reshape(4, 6)
    snapshot = Snapshot(torch, str(out), 0)
    snapshot.attach()
    for _ in range(3):
        torch.randperm(4) if draws else None
        model(batch.flip(0) if flipped else batch).sum().backward()
        optimizer.step()
    return out


def errors(tmp_path: Path, **other: Any) -> list[Difference]:
    found = check(taken(tmp_path / "a.zip"), taken(tmp_path / "b.zip", **other))
    return [one for one in found.differences if one.severity == "error"]


def test_the_same_setup_twice_has_no_error(tmp_path: Path) -> None:
    assert errors(tmp_path) == []


@pytest.mark.parametrize(
    ("other", "part", "word"),
    [
        ({"seed": 1}, "random", "seed"), ({"flipped": True}, "data", "another order"),
        ({"bias": False}, "parameters", "only in the golden run"), ({"draws": 1}, "random", "drew"),
    ],
    ids=["seed", "permuted batch", "missing parameter", "extra randperm"],
)  # fmt: skip
def test_what_msprobe_passes_is_an_error(tmp_path: Path, other: dict[str, Any], part: str, word: str) -> None:
    found = errors(tmp_path, **other)
    assert any(one.part == part and word in say(one.what) for one in found), found


def test_a_snapshot_is_complete_after_two_batches_and_leaves_nothing_in_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    before: Callable[..., Any] = torch.utils.data.DataLoader.__iter__
    taken(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        found = json.loads(file.read("snapshot.json"))
    assert len(found["batches"]) == 2
    assert "failed" not in found
    assert torch.utils.data.DataLoader.__iter__ is before
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_loss_that_is_a_module_is_no_second_batch_of_the_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hermes.inside.snapshot import Snapshot

    model, loss = torch.nn.Linear(6, 3), torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    snapshot = Snapshot(torch, str(tmp_path / "a.zip"), 0)
    snapshot.attach()
    for _ in range(3):
        loss(model(torch.ones(4, 6)), torch.zeros(4, 3)).backward()
        optimizer.step()
    assert [one["model"] for one in snapshot.found["batches"]] == ["Linear", "MSELoss", "Linear"]
    assert [one["type"] for one in snapshot.found["optimizers"]] == ["SGD"]
    assert not torch.nn.modules.module._global_forward_pre_hooks
