"""The watch speaks of a training that goes wrong and of no other; the ring then holds the first bad step."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hermes.inside.record.watch_numerics import Watch
from hermes.precision.read.recording import read


def said(losses: list[float], norms: list[float] | None = None) -> list[tuple[int, str]]:
    watch = Watch()
    found = [watch.numbers(loss, (norms or [1.0] * len(losses))[at]) for at, loss in enumerate(losses)]
    return [(at, one) for at, one in enumerate(found) if one]


@pytest.mark.parametrize("offset", [-5.0, 0.0, 3.0], ids=["negative", "around nothing", "positive"])
def test_a_healthy_training_raises_no_alarm(offset: float) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        steps = np.arange(1000)
        losses = offset + 8 * np.exp(-steps / 100) + random.normal(0, 0.3, 1000)
        norms = (1 + 5 * np.exp(-steps / 50)) * random.lognormal(0, 0.4, 1000)
        assert said(losses.tolist(), norms.tolist()) == []


def test_a_loss_that_jumps_is_told_of_in_its_step() -> None:
    losses = [2 + 0.1 * math.sin(step) for step in range(100)]
    losses[70] = 9.0
    assert [at for at, _ in said(losses)] == [70]
    assert "jumped to 9 from about 1.998" in said(losses)[0][1]


@pytest.mark.parametrize(("norm", "word"), [(500.0, "explode"), (0.001, "vanish")])
def test_gradients_that_explode_or_vanish_are_told_of(norm: float, word: str) -> None:
    norms = [1 + 0.2 * math.sin(step) for step in range(60)]
    norms[40] = norm
    (found,) = said([1.0] * 60, norms)
    assert found[0] == 40
    assert word in found[1]


def test_the_first_steps_are_not_judged() -> None:
    assert said([5.0, 400.0, 3.0, 90.0, 2.0]) == []


def test_a_nan_is_told_of_once() -> None:
    watch = Watch()
    nan = [{"value": 0, "dtype": "float32", "shape": [4], "stats": ["nan", "nan", "nan", "nan", 4.0, 0.0, 0.0]}]
    gradient = [{"op": "gradient", "n": 0, "phase": "gradient", "parameter": "Net.weight", "in": [], "out": [0]}]
    assert watch.look(nan, gradient) == "the gradient of Net.weight is not finite"
    assert watch.look(nan, gradient) == ""


@pytest.mark.live
def test_the_ring_holds_the_step_in_which_a_nan_was_born(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hermes.inside.record.options import Options
    from hermes.inside.record.recorder import Recorder
    from hermes.inside.record.start import Steps

    recorder = Recorder(torch, Options({"out": str(tmp_path / "r"), "ring": 2}), rank=0, world=1)
    steps = Steps(recorder)
    steps.attach(torch)
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for step in range(6):
        loss = net(torch.ones(4, 8)).square().mean()
        (loss * (math.nan if step == 4 else 1.0)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            assert read(tmp_path / "r").steps == ()
    steps.detach()
    recorder.close()
    assert [step for _, step in read(tmp_path / "r").steps] == [3, 4]
