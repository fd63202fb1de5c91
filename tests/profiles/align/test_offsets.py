"""Clocks of ranks are brought together by the ends of collectives."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.step_measures import ClockOffset
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.align.offsets import SAME_CLOCK_NS
from hermes.profiles.align.offsets import clock_offsets as offsets_of
from hermes.profiles.measure.communication.last_arrivals import operations_of_all_ranks, with_keys

SCHEMA = schema_of(TABLES["comm_op"])
SKEW = 5_000_000
SPACING = 10_000_000


def ops(rank: int, ends: dict[str, int], *, group: str | None = "g", op: str = "all_reduce") -> pl.DataFrame:
    """Collectives by name and end; each lasts a different time, as members arrive at different moments."""
    rows = [
        {
            "rank": rank, "comm_id": place, "name": name, "op": op, "group": group, "sequence": place,
            "start_ns": end - 100 * (rank + 1), "dur_ns": 100 * (rank + 1),
        }
        for place, (name, end) in enumerate(ends.items())
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def series(*jitter: int, skew: int = 0) -> dict[str, int]:
    return {f"hcom_{place}": place * SPACING - skew + off for place, off in enumerate(jitter)}


def clock_offsets(hosts: dict[int, str | None], tables: dict[int, pl.DataFrame]) -> tuple[ClockOffset, ...]:
    none = {0: ops(0, {})}
    return offsets_of(
        hosts, operations_of_all_ranks({rank: with_keys(rank, rows) for rank, rows in (tables or none).items()})
    )


def second(hosts: dict[int, str | None], tables: dict[int, pl.DataFrame]) -> ClockOffset:
    first, found = clock_offsets(hosts, tables)
    assert (first.rank, first.offset_ns, first.error_ns) == (0, 0, 0)
    return found


def test_ranks_of_one_host_share_its_clock_whatever_a_few_collectives_say() -> None:
    found = second({0: "a", 1: "a"}, {0: ops(0, series(0, 0)), 1: ops(1, series(0, 0, skew=SKEW))})
    assert found == ClockOffset(rank=1, offset_ns=0, error_ns=0, anchors=0, method="same host")


@pytest.mark.parametrize("host", ["a", None])
@pytest.mark.parametrize(("jitter", "skew"), [(1_000, 40_000), (30_000, 0)])
def test_many_collectives_that_agree_tell_devices_of_one_host_apart(host: str | None, jitter: int, skew: int) -> None:
    shaken = [place % 2 * jitter for place in range(20)]
    found = second({0: host, 1: host}, {0: ops(0, series(*[0] * 20)), 1: ops(1, series(*shaken, skew=skew))})
    assert abs(found.offset_ns - skew) <= jitter // 2
    assert (found.method == "collectives") == (skew > 0)


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(-2_000, 2_000), min_size=9, max_size=15))
def test_a_skewed_clock_is_recovered_within_the_jitter(skew: int, jitter: list[int]) -> None:
    found = second({0: "a", 1: "b"}, {0: ops(0, series(*[0] * len(jitter))), 1: ops(1, series(*jitter, skew=skew))})
    assert found.method == "collectives"
    assert found.anchors == len(jitter)
    assert abs(found.offset_ns - skew) <= 2_000


def test_the_error_bar_holds_the_true_skew() -> None:
    jitter = (-900, 400, 120, -300, 700, 0, 260, -510, 90)
    found = second({0: "a", 1: "b"}, {0: ops(0, series(*[0] * 9)), 1: ops(1, series(*jitter, skew=SKEW))})
    assert found.error_ns is not None
    assert abs(found.offset_ns - SKEW) <= found.error_ns < 5_000


def test_one_outlier_does_not_move_the_offset() -> None:
    found = second(
        {0: "a", 1: "b"}, {0: ops(0, series(*[0] * 5)), 1: ops(1, series(0, 0, 0, 0, 90_000_000, skew=SKEW))}
    )
    assert (found.offset_ns, found.error_ns) == (SKEW, 0)


def test_a_single_anchor_tells_no_error() -> None:
    found = second({0: "a", 1: "b"}, {0: ops(0, series(0)), 1: ops(1, series(0, skew=SKEW))})
    assert found == ClockOffset(rank=1, offset_ns=SKEW, error_ns=None, anchors=1, method="collectives")


@pytest.mark.parametrize("hosts", [{0: None, 1: None}, {0: "a", 1: None}, {0: None, 1: "b"}])
def test_an_unknown_host_counts_as_the_same_clock_below_a_millisecond(hosts: dict[int, str | None]) -> None:
    found = second(hosts, {0: ops(0, series(0, 0)), 1: ops(1, series(0, 0, skew=SAME_CLOCK_NS - 1))})
    assert (found.offset_ns, found.method, found.error_ns) == (0, "assumed", SAME_CLOCK_NS - 1)


def test_an_unknown_host_that_is_off_by_a_millisecond_has_another_clock() -> None:
    found = second({0: None, 1: None}, {0: ops(0, series(0, 0)), 1: ops(1, series(0, 0, skew=SAME_CLOCK_NS))})
    assert (found.offset_ns, found.method) == (SAME_CLOCK_NS, "collectives")


def test_two_known_hosts_are_corrected_however_little_they_differ() -> None:
    found = second({0: "a", 1: "b"}, {0: ops(0, series(0, 0)), 1: ops(1, series(0, 0, skew=700))})
    assert (found.offset_ns, found.method) == (700, "collectives")


@pytest.mark.parametrize(
    "other",
    [
        ops(1, series(0, 0, skew=SKEW), group="h"),
        ops(1, series(0, 0, skew=SKEW), group=None),
        ops(1, series(0, 0, skew=SKEW), op="broadcast"),
        ops(1, series(0, 0, skew=SKEW), op="send"),
        ops(1, {}),
    ],
    ids=["another group", "no group", "a broadcast ends early", "a send ends early", "nothing"],
)
def test_a_rank_without_a_shared_anchor_stays_where_it_is(other: pl.DataFrame) -> None:
    op = other["op"][0] if other.height else "all_reduce"
    found = second({0: "a", 1: "b"}, {0: ops(0, series(0, 0), op=op), 1: other})
    assert found == ClockOffset(rank=1, offset_ns=0, error_ns=None, anchors=0, method="assumed")


def test_a_chain_reaches_a_rank_that_shares_nothing_with_the_first() -> None:
    middle = pl.concat([ops(1, series(0, 0, skew=SKEW)), ops(1, series(5, 5, skew=SKEW), group="h")])
    last = ops(2, series(5, 5, skew=3 * SKEW), group="h")
    found = clock_offsets({0: "a", 1: "b", 2: "c"}, {0: ops(0, series(0, 0)), 1: middle, 2: last})
    assert [one.offset_ns for one in found] == [0, SKEW, 3 * SKEW]
    assert found[2].error_ns == 0


def test_an_unknown_error_stays_unknown_along_a_chain() -> None:
    middle = pl.concat([ops(1, series(0, skew=SKEW)), ops(1, series(5, 5, skew=SKEW), group="h")])
    last = ops(2, series(5, 5, skew=SKEW), group="h")
    found = clock_offsets({0: "a", 1: "b", 2: "c"}, {0: ops(0, series(0)), 1: middle, 2: last})
    assert [one.error_ns for one in found] == [0, None, None]


def handed(rank: int, peer: int, ops_and_ends: list[tuple[str, int]]) -> pl.DataFrame:
    """Sends and receives by end, each of 100 ns."""
    rows = [
        {
            "rank": rank, "comm_id": 100 + place, "name": f"p2p_{place}", "op": op, "group": "pp", "peer": peer,
            "start_ns": end - 100, "dur_ns": 100,
        }
        for place, (op, end) in enumerate(ops_and_ends)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


@pytest.mark.parametrize(("back", "told"), [("recv", 40_000), ("send", 0)])
def test_transfers_in_both_directions_tell_clocks_and_those_in_one_do_not(back: str, told: int) -> None:
    here = [("send", place * SPACING) if place % 2 else (back, place * SPACING) for place in range(20)]
    other = {"send": "recv", "recv": "send"}
    there = [(other[op], end - 40_000) for op, end in here]
    found = second({0: "a", 1: "a"}, {0: handed(0, 1, here), 1: handed(1, 0, there)})
    assert (found.offset_ns, found.method) == (told, "collectives" if told else "same host")


def test_that_two_ranks_share_a_host_counts_only_where_no_chain_tells_their_clocks() -> None:
    skewed = [series(*[0] * 20, skew=place * 40_000) for place in range(3)]
    middle = pl.concat([ops(1, skewed[1]), ops(1, skewed[1], group="h")])
    few = dict(list(skewed[2].items())[:2])
    last = pl.concat([ops(2, few, group="world"), ops(2, skewed[2], group="h")])
    first = pl.concat([ops(0, skewed[0]), ops(0, dict(list(skewed[0].items())[:2]), group="world")])
    found = clock_offsets({0: "a", 1: "a", 2: "a"}, {0: first, 1: middle, 2: last})
    assert [one.offset_ns for one in found] == [0, 40_000, 80_000]


def test_a_rank_on_the_host_of_a_placed_one_moves_with_it() -> None:
    found = clock_offsets(
        {0: "a", 1: "b", 2: "b"}, {0: ops(0, series(0, 0)), 1: ops(1, series(0, 0, skew=SKEW)), 2: ops(2, {})}
    )
    assert [(one.offset_ns, one.method) for one in found] == [
        (0, "same host"),
        (SKEW, "collectives"),
        (SKEW, "same host"),
    ]


def test_ranks_without_an_anchor_to_the_first_are_still_brought_together() -> None:
    tables = {0: ops(0, {}), 1: ops(1, series(0, 0)), 2: ops(2, series(0, 0, skew=SKEW))}
    found = clock_offsets({0: "a", 1: "b", 2: "c"}, tables)
    assert [(one.offset_ns, one.error_ns, one.method) for one in found] == [
        (0, 0, "same host"), (0, None, "assumed"), (SKEW, None, "collectives"),
    ]  # fmt: skip


def test_collectives_of_one_name_are_matched_by_their_place_in_the_group() -> None:
    def repeated(rank: int, skew: int) -> pl.DataFrame:
        return ops(rank, series(0, 0, 0, skew=skew)).with_columns(name=pl.lit("all_reduce"))

    found = second({0: "a", 1: "b"}, {0: repeated(0, 0), 1: repeated(1, SKEW)})
    assert (found.offset_ns, found.error_ns, found.anchors) == (SKEW, 0, 3)


def test_offsets_come_in_rank_order_and_the_lowest_rank_is_the_reference() -> None:
    found = clock_offsets({7: "b", 3: "a"}, {7: ops(7, series(0, 0, skew=SKEW)), 3: ops(3, series(0, 0))})
    assert [(one.rank, one.offset_ns) for one in found] == [(3, 0), (7, SKEW)]


def test_no_ranks_have_no_offsets() -> None:
    assert clock_offsets({}, {}) == ()
