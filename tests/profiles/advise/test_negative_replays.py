"""A cure whose replay makes the step longer gives nothing, whatever bound its rule knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from hermes.model.finding import Loss
from hermes.profiles.advise.bound_gains import GainBound
from hermes.profiles.advise.rank_findings import Replay
from hermes.profiles.pipeline.gains import StepReplay, with_gains


@pytest.mark.parametrize(("replayed", "high"), [(-20, 0), (-4, 100), (0, 100)])
def test_what_makes_the_step_longer_by_more_than_noise_is_no_gain(
    replayed: int, high: int, finding: Callable[..., Loss], replaying: Callable[..., Replay]
) -> None:
    replay = cast(StepReplay, replaying({"PAR001": replayed}))
    (found,) = with_gains([finding("PAR001", low=0)], replay, None, GainBound(step_ns=1_000, host_ns=1_000))
    assert (found.gain.low_ns, found.gain.high_ns) == (0, high)
