"""Short factories for findings, replays and a noise floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.plan import NoiseFloor
from hermes.profiles.advise.rank_findings import Replay
from hermes.profiles.whatif.replay import Prediction

STEP = 1_000
FAULTS = {
    "COM001": Fault.EXPOSED_COMMUNICATION,
    "COM005": Fault.UNALIGNED_SIZES,
    "CMP003": Fault.AI_CPU_OPERATORS,
    "CMP011": Fault.SLOW_DEVICE,
    "PAR001": Fault.UNEVEN_STAGES,
    "CPU002": Fault.COMPILATION,
    "ENV005": Fault.FIRST_CALLS,
}
"""The faults that rules find; any other rule finds slow dispatch."""


@pytest.fixture
def floor() -> NoiseFloor:
    """A noise floor of five in a step of a thousand."""
    return NoiseFloor(ns=5, step_ns=STEP, spread_ns=2, of="steps", unexplained_ns=0, least_ns=5)


def _blame(text: str) -> Blame:
    word, _, number = text.partition(" ")
    return Blame.of_rank(int(number)) if word == "rank" and number.isdecimal() else Blame(text)


@pytest.fixture
def finding() -> Callable[..., Loss]:
    """Makes a finding: `finding("CPU002", low=50, high=60, ranks=(5,))`; `low` None: not replayed."""

    def make(
        code: str,
        *,
        low: int | None = None,
        high: int = 100,
        ranks: Sequence[int] = (0, 1),
        blames: Sequence[str] = (),
        cause: str = "",
        layer: str = "cpu",
        fault: Fault | None = None,
        confidence: float = 1.0,
        action: str = "",
        cases: tuple[str, ...] = (),
    ) -> Loss:
        return Loss(
            code=code,
            layer=layer,  # type: ignore[arg-type]
            fault=fault or (Fault.STRAGGLER if cause == "straggler" else FAULTS.get(code, Fault.DISPATCH)),
            message=f"{code} costs {high}",
            ranks=tuple(ranks),
            blames=tuple(_blame(text) for text in blames),
            cost_ns=high,
            share=high / STEP,
            gain=Gain(low_ns=low or 0, high_ns=high, method="bound", basis="replayed" if low is not None else "bound"),
            confidence=confidence,
            evidence=(),
            actions=(
                Action(
                    title=action or f"cure {code}",
                    do="this",
                    verify="it falls",
                    risk="none",
                    source="a source",
                    cases=cases,
                ),
            ),
            replay=(f"change:{code}",) if low is not None else (),
        )

    return make


@pytest.fixture
def replaying() -> Callable[[Mapping[str, int]], Replay]:
    """Makes a replay in which sets of changes give what a table says: by default the largest of their gains."""

    def make(table: Mapping[str, int]) -> Replay:
        def replay(specs: Sequence[str]) -> Prediction | None:
            codes = sorted({spec.removeprefix("change:") for spec in specs})
            if not codes:
                return None
            gain = table.get("+".join(codes), max(table.get(code, 0) for code in codes))
            return Prediction(specs=tuple(specs), title="", step_ns=STEP, low_ns=gain, high_ns=gain)

        return replay

    return make
