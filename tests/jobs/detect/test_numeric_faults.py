"""A training whose numbers go wrong raises one alarm a cause, and a healthy one none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hermes.base.say import say
from hermes.inside.wire.numerics import Follower, NumericsLook, append, parse, path_in
from hermes.jobs.detect.numeric_faults import JobNumbers, NumericFault, Numerics, replay


def looks(
    losses: list[float], norms: list[float] | None = None, updates: list[float] | None = None
) -> list[NumericsLook]:
    count = len(losses)
    return [
        NumericsLook(
            10 * at, loss=losses[at], norm=(norms or [1.0] * count)[at], update=(updates or [1e-3] * count)[at]
        )
        for at in range(count)
    ]


def said(found: list[NumericsLook], ranks: int = 1) -> list[NumericFault]:
    return JobNumbers().add([(rank, look) for rank in range(ranks) for look in found])


def calm(count: int = 60) -> list[float]:
    return [2 + 0.1 * math.sin(at) for at in range(count)]


@pytest.mark.parametrize("offset", [-5.0, 0.0, 3.0], ids=["negative", "around nothing", "positive"])
def test_a_healthy_training_raises_no_alarm(offset: float) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        steps = np.arange(1000)
        losses = offset + 8 * np.exp(-steps / 100) + random.normal(0, 0.3, 1000)
        norms = (1 + 5 * np.exp(-steps / 50)) * random.lognormal(0, 0.4, 1000)
        rates = np.minimum(steps / 100, 1) * (1 + np.cos(np.pi * steps / 999)) / 2 * 1e-3
        assert said(looks(losses.tolist(), norms.tolist(), rates.tolist())) == []


def test_a_loss_that_jumps_is_named_with_rank_and_step() -> None:
    losses = calm()
    losses[40] = 9.0
    (found,) = said(looks(losses))
    assert (found.rank, found.step, found.kind) == (0, 400, "loss")
    assert found.message.identifier == "jobs.loss_jumped"
    assert say(found.message).startswith("rank 0, step 400: the loss jumped to 9 from about ")


@pytest.mark.parametrize(("norm", "kind"), [(500.0, "explode"), (0.001, "vanish"), (math.nan, "not finite")])
def test_gradients_that_go_wrong_are_named(norm: float, kind: str) -> None:
    norms = [1.0 + 0.1 * math.cos(at) for at in range(60)]
    norms[30] = norm
    assert [one.kind for one in said(looks(calm(), norms))] == [kind]


def test_updates_that_grow_a_hundredfold_at_once_are_named() -> None:
    rates = [1e-3] * 60
    rates[30] = 0.3
    assert [one.kind for one in said(looks(calm(), updates=rates))] == ["updates"]


def test_what_all_ranks_show_is_one_alarm() -> None:
    losses = calm()
    losses[40] = 9.0
    assert [(one.rank, one.step) for one in said(looks(losses), ranks=8)] == [(0, 400)]


def test_a_nan_is_told_of_once_though_it_stays() -> None:
    losses = [*calm(30), *[math.nan] * 30]
    assert [(one.step, one.kind) for one in said(looks(losses))] == [(300, "not finite")]


def test_an_explosion_and_the_nan_that_it_ends_in_are_both_told_of() -> None:
    norms = [*[1.0] * 30, 1e4, *[math.nan] * 5]
    assert [one.kind for one in said(looks(calm(36), norms))] == ["explode", "not finite"]


def test_the_first_looks_are_not_judged() -> None:
    assert said(looks([5.0, 400.0, 3.0, 90.0, 2.0])) == []


def test_files_say_what_was_said_while_they_were_written(tmp_path: Path) -> None:
    losses = calm()
    losses[40] = 9.0
    live = Numerics(tmp_path)
    found = []
    for at, look in enumerate(looks(losses)):
        for rank in (0, 1):
            append(path_in(tmp_path, rank), look.line())
        if at % 7 == 0:
            found += live.look([0, 1])
    found += live.look([0, 1])
    assert found == replay(tmp_path, [0, 1])
    assert [one.step for one in found] == [400]
    last = live.last(1)
    assert last is not None
    assert last.step == 590


def test_a_file_that_was_set_aside_is_read_to_its_end(tmp_path: Path) -> None:
    path = path_in(tmp_path, 0)
    follower = Follower(path)
    append(path, NumericsLook(1, loss=1.0).line())
    assert [look.step for look in follower.new()] == [1]
    append(path, NumericsLook(2, loss=1.0).line())
    path.replace(path.with_name(path.name + ".1"))
    append(path, NumericsLook(3, loss=1.0).line())
    assert [look.step for look in follower.new()] == [2, 3]


def test_numbers_survive_the_file_also_where_json_has_none() -> None:
    for number in (math.nan, math.inf, -math.inf, None, 0.1234567):
        look = parse(NumericsLook(7, loss=number, norm=2.0, broken=3).line())
        assert look is not None
        assert json.loads(NumericsLook(7, loss=number).line())["step"] == 7
        assert look.loss == number or (look.loss != look.loss and number != number)
        assert (look.norm, look.broken) == (2.0, 3)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[" * 5000, b"7", b'{"step": -1}', b'{"step": "1"}', b'{"step": 1e9}', b"x" * 100_000]
)
def test_a_damaged_line_is_left_out(line: bytes) -> None:
    assert parse(line) is None
