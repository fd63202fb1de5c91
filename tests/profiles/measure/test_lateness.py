"""How long each rank of a group waits for the last."""

from __future__ import annotations

from tests.profiles.measure.comm_rows import drawn, groups_of, together

from hermes.profiles.measure.communication.lateness import group_arrivals

ALWAYS = """
    rank0.step  [#########][#########][#########]
    rank1.step  [#########][#########][#########]
    rank2.step  [#########][#########][#########]
    rank0.comm  .########...########...########..
    rank1.comm  ..#######....#######....#######..
    rank2.comm  .....####.......####.......####..
"""


def test_who_never_waits_is_the_one_that_is_waited_for() -> None:
    made, groups = together(drawn(ALWAYS), groups_of(ALWAYS))
    found = group_arrivals(made.rows, groups, 3)
    assert [(one.rank, one.last, one.operations, one.median_wait_ns) for one in found] == [
        (0, 0, 3, 4_000), (1, 0, 3, 3_000), (2, 3, 3, 0),
    ]  # fmt: skip
    assert {one.first_rank for one in found} == {0}
    assert sum(one.total_wait_ns for one in found) == 3 * 7_000


def test_a_group_of_which_one_rank_was_read_tells_nothing() -> None:
    alone = "\n".join(line for line in ALWAYS.splitlines() if "rank0" in line)
    made, groups = together(drawn(alone), groups_of(alone))
    assert group_arrivals(made.rows, groups, 3) == ()
