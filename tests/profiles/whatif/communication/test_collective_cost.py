"""What collectives take by their size: the line is found, and what cannot be known is not claimed."""

from __future__ import annotations

import pytest

from hermes.profiles.whatif.communication.collective_cost import BusyLink, fitted

MB = 1_000_000


def line(size: int, many: int = 1) -> BusyLink:
    return BusyLink(many, size, many * 200_000 + size // 10)


def test_the_fixed_time_and_that_of_bytes_are_found() -> None:
    cost = fitted([line(size * MB) for size in (1, 4, 16, 64)], least_ns=300_000)
    assert cost.fixed_ns == pytest.approx(200_000, rel=0.01)
    assert cost.ns(256 * MB) == pytest.approx(25_800_000, rel=0.01)
    assert cost.told


def test_a_transfer_that_stalled_changes_little() -> None:
    points = [line(size * MB) for size in (1, 2, 4, 8, 16, 32, 64)] * 3
    cost = fitted([*points, BusyLink(1, 16 * MB, 50_000_000)], least_ns=300_000)
    assert cost.ns(16 * MB) == pytest.approx(line(16 * MB).ns, rel=0.05)


def test_of_one_size_the_fixed_time_may_be_anything_up_to_the_shortest_collective() -> None:
    cost = fitted([line(16 * MB)] * 5, least_ns=400_000)
    assert not cost.told
    assert cost.ns(16 * MB, "low") == cost.ns(16 * MB, "high") == line(16 * MB).ns
    assert cost.ns(1 * MB, "low") < line(1 * MB).ns < cost.ns(1 * MB, "high")


def test_no_time_is_below_zero() -> None:
    cost = fitted(
        [BusyLink(1, 1 * MB, 100_000), BusyLink(1, 10 * MB, 2_000_000), BusyLink(1, 20 * MB, 4_000_000)],
        least_ns=100_000,
    )
    assert min(cost.ns(1, case) for case in ("low", "middle", "high")) >= 1


def test_collectives_side_by_side_share_the_link() -> None:
    cost = fitted([line(32 * MB, 4), line(24 * MB, 1), line(8 * MB, 1)], least_ns=300_000)
    assert cost.fixed_ns == pytest.approx(200_000, rel=0.01)
    assert cost.ns(8 * MB) == pytest.approx(1_000_000, rel=0.01)
