"""A loss is held against the spread that is left where the loss itself made as much of it as it can."""

from __future__ import annotations

from dataclasses import replace

from hermes.model.plan import NoiseFloor
from hermes.profiles.advise.noise import noise_floor_of_step, without_profiler

FLOOR = NoiseFloor(ns=5, step_ns=480, spread_ns=None, of="steps", unexplained_ns=None, least_ns=2)


def test_a_loss_as_large_as_the_spread_of_steps_is_never_noise() -> None:
    floor = without_profiler(FLOOR, 200, 16)
    assert floor.ns > 90
    assert floor.beside(300) == floor.least_ns


def test_a_loss_far_below_the_spread_is_held_against_all_of_it() -> None:
    floor = without_profiler(FLOOR, 200, 16)
    assert floor.beside(10) in range(floor.ns - 2, floor.ns + 1)


def test_more_steps_that_are_known_lower_the_floor() -> None:
    assert without_profiler(FLOOR, 200, 64).ns < without_profiler(FLOOR, 200, 4).ns


def test_a_floor_without_a_spread_is_the_least() -> None:
    assert replace(FLOOR, ns=2).beside(1) == 2


def test_the_floor_of_a_whole_capture_is_a_share_of_all_of_it() -> None:
    floor = noise_floor_of_step(FLOOR, 10_000, marked=False)
    assert (floor.step_ns, floor.least_ns, floor.ns) == (10_000, 50, 50)
    assert noise_floor_of_step(FLOOR, 10_000, marked=True).least_ns == FLOOR.least_ns
    assert noise_floor_of_step(FLOOR, 100, marked=True).step_ns == FLOOR.step_ns
