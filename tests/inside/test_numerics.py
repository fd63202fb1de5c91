"""Real PyTorch on the CPU: what is seen of loss, gradients and updates, and that the training does not notice."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from tests.inside.conftest import Place

from hermes.inside.wire.numerics import Follower, NumericsLook, path_in

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("with_torch")]

_TRAINING = """
    import math, os, sys
    import torch
    from torch import nn
    torch.manual_seed(3)
    torch.set_num_threads(1)
    import hermes.inside as capture
    import hermes.inside.monitor.numerics as numerics
    import hermes.inside.monitor.at_step_end as steps
    numerics._EVERY_NS = numerics._SHARE = 0
    steps.READ_NS = steps._PAUSE_NS = 0
    capture.start()
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {before}
    for number in range(40):
        loss = model(torch.randn(8, 16)).square().mean() {after}
        {backward}
        norm = math.sqrt(sum(float(one.grad.double().square().sum()) for one in model.parameters()))
        old = [one.detach().clone() for one in model.parameters()]
        {step}
        moved = math.sqrt(sum(float((a - b.detach()).square().sum()) for a, b in zip(old, model.parameters())))
        size = math.sqrt(sum(float(one.square().sum()) for one in old))
        optimizer.zero_grad()
        print("STEP", number, loss.item(), norm, moved / size)
    print("END", sum(float(one.detach().double().sum()) for one in model.parameters()).hex())
"""


def training(*, before: str = "pass", after: str = "", backward: str = "loss.backward()",
             step: str = "optimizer.step()") -> str:  # fmt: skip
    return _TRAINING.format(before=before, after=after, backward=backward, step=step)


def seen(place: Place) -> dict[int, NumericsLook]:
    (job,) = place.jobs()
    return {look.step: look for look in Follower(path_in(job.folder, 0)).new()}


def printed(text: str) -> dict[int, tuple[float, float, float]]:
    rows = re.findall(r"^STEP (\S+) (\S+) (\S+) (\S+)$", text, re.M)
    return {int(step): (float(loss), float(norm), float(update)) for step, loss, norm, update in rows}


def test_a_look_tells_loss_norm_and_update_of_its_step(place: Place) -> None:
    done = place.python(training())
    assert (done.returncode, done.stderr) == (0, "")
    own, looks = printed(done.stdout), seen(place)
    assert len(looks) > 10
    for step, look in looks.items():
        assert (look.loss, look.norm, look.update) == pytest.approx(own[step], rel=1e-4)
        assert look.broken == 0


def test_a_model_of_float64_is_looked_at_too(place: Place) -> None:
    done = place.python(training(before="model.double()").replace("torch.randn(8, 16)", "torch.randn(8, 16).double()"))
    assert (done.returncode, done.stderr) == (0, "")
    own, looks = printed(done.stdout), seen(place)
    assert len(looks) > 10
    for step, look in looks.items():
        assert (look.loss, look.norm, look.update) == pytest.approx(own[step], rel=1e-4)


def test_results_are_the_same_in_every_bit(place: Place) -> None:
    ends = {place.python(training(), HERMES_NUMERICS=on).stdout.splitlines()[-1] for on in ("0", "1")}
    assert len(ends) == 1


def test_it_can_be_left_out(place: Place) -> None:
    place.python(training(), HERMES_NUMERICS="0")
    (job,) = place.jobs()
    assert not path_in(job.folder, 0).exists()


def test_a_nan_in_the_gradients_is_counted(place: Place) -> None:
    place.python(training(after="* (math.nan if number >= 20 else 1)"))
    looks = seen(place)
    assert {math.isnan(look.loss or 0) for step, look in looks.items() if step >= 20} == {True}
    assert {look.broken for step, look in looks.items() if step >= 20} == {4}
    assert {look.broken for step, look in looks.items() if step < 20} == {0}


def test_the_scale_of_mixed_precision_is_not_part_of_the_loss(place: Place) -> None:
    scaled = training(
        before="scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)", backward="scaler.scale(loss).backward()",
        step="scaler.step(optimizer); scaler.update()",
    )  # fmt: skip
    done = place.python(scaled)
    assert (done.returncode, done.stderr) == (0, "")
    own, looks = printed(done.stdout), seen(place)
    assert len(looks) > 10
    assert all(look.loss == pytest.approx(own[step][0], rel=1e-4) for step, look in looks.items())


def test_what_goes_wrong_ends_the_looking_and_not_the_training(place: Place) -> None:
    broken = training(before="torch._foreach_norm = None")
    done = place.python(broken)
    assert done.returncode == 0
    assert len(printed(done.stdout)) == 40
    assert done.stderr.count("loss and gradients are not looked at") == 1
    (job,) = place.jobs()
    assert (job.log_path(0)).stat().st_size > 4096 + 30 * 256


def test_the_file_lies_in_the_run_directory(place: Place) -> None:
    place.python(training())
    (job,) = place.jobs()
    assert path_in(job.folder, 0) == Path(job.folder) / "numerics-rank0.jsonl"
