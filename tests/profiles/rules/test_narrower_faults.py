"""Which faults are parts of others: told by faults, so that a rule may find several."""

from __future__ import annotations

from hermes.model.fault import Fault
from hermes.profiles.rules.narrower_faults import PARTS, holds


def test_a_part_of_a_part_is_one_of_the_whole_and_nothing_is_part_of_itself() -> None:
    assert holds(Fault.SLOW_DEVICE, Fault.LOW_CLOCK)
    assert holds(Fault.STRAGGLER, Fault.LOW_CLOCK)
    assert not holds(Fault.LOW_CLOCK, Fault.STRAGGLER)
    assert [fault for fault in Fault if holds(fault, fault)] == []


def test_each_part_explains_a_leaf_that_its_whole_does_or_makes_a_rank_late() -> None:
    late = (Fault.STRAGGLER, Fault.SLOW_DEVICE)
    apart = [
        (whole, part)
        for whole, parts in PARTS.items() if whole not in late
        for part in parts
        if not whole.explains & part.explains and part is not Fault.FIRST_CALLS
    ]  # fmt: skip
    assert apart == []
