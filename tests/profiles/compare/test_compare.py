"""Two runs beside each other: the change of each part, what chance alone may do, findings, settings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.model.comparison import TimeChange
from hermes.model.step_measures import StepSplit
from hermes.profiles.compare.changes import _limit, compare
from hermes.profiles.compare.pair_steps import pair_all_steps, pair_typical_steps
from hermes.profiles.compare.run import ComparedFinding, ComparedRun

US = 1_000


def split(step: int | None, compute: int, comm: int, free: int = 0, rank: int = 0) -> StepSplit:
    window = compute + comm + free
    return StepSplit(
        rank=rank, step=step, window_kind="device", start_ns=(step or 0) * 1_000_000, window_ns=window,
        compute_ns=compute, comm_ns=comm, exposed_comm_ns=comm, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0,
        free_ns=free, preparing_ns=None, host_ns=None,
    )  # fmt: skip


def run(
    *splits: StepSplit,
    kernels: tuple[tuple[str, int | None, int], ...] = (),
    findings: tuple[ComparedFinding, ...] = (),
    said: dict[tuple[str, str], str] | None = None,
) -> ComparedRun:
    return ComparedRun(
        title="a run", ranks=tuple(sorted({one.rank for one in splits})), splits=splits,
        names={"kernels": table("compute", *((name, step, ns, 1) for name, step, ns in kernels))}, findings=findings,
        settings=said or {},
    )  # fmt: skip


def table(kind: str, *rows: tuple[str, int | None, int, int]) -> pl.DataFrame:
    """Names with their step, nanoseconds and calls."""
    schema = {"kind": pl.String, "name": pl.String, "step": pl.Int64, "ns": pl.Int64, "calls": pl.Int64}
    return pl.DataFrame([(kind, *row) for row in rows], schema=schema, orient="row")


def steady(comm: int, steps: int = 8) -> list[StepSplit]:
    """Steps that differ by a few nanoseconds."""
    return [split(step, 100 * US, comm + 7 * (step % 3)) for step in range(steps)]


def test_the_change_is_in_the_part_that_changed() -> None:
    found = compare(run(*steady(50 * US)), run(*steady(20 * US)))
    parts = {part.name: (part.change_ns, part.verdict) for part in found.parts}
    assert found.step.verdict == "less"
    assert parts["exposed_comm"] == (found.step.change_ns, "less")
    assert parts["compute"] == (0, "no change seen")


def test_a_change_within_the_spread_of_the_steps_is_none() -> None:
    wide = [split(step, (100 + 20 * (step % 5)) * US, 0) for step in range(20)]
    other = [split(step, (102 + 20 * ((step + 2) % 5)) * US, 0) for step in range(20)]
    assert compare(run(*wide), run(*other)).step.verdict == "no change seen"


def test_a_slow_first_step_moves_nothing() -> None:
    late = [split(0, 100 * US, 9_000 * US), *steady(50 * US)[1:]]
    assert compare(run(*late), run(*steady(50 * US))).step.verdict == "no change seen"


def test_fewer_than_three_steps_tell_nothing_of_chance() -> None:
    found = compare(run(*steady(50 * US, 2)), run(*steady(20 * US)))
    assert (found.step.margin_ns, found.step.verdict) == (None, "not known")
    assert found.step.change_ns is not None


def test_what_was_not_measured_is_not_zero() -> None:
    blind = [replace(one, compute_ns=None, exposed_comm_ns=None, free_ns=None) for one in steady(50 * US)]
    compute = compare(run(*blind), run(*steady(50 * US))).parts[0]
    assert (compute.before_ns, compute.change_ns, compute.verdict) == (None, None, "not known")


def test_a_kernel_is_counted_per_step_and_rank() -> None:
    splits = [split(step, 100 * US, 0, rank=rank) for step in range(4) for rank in (0, 1)]
    # Added up over two ranks, each kernel takes 20 of its 10 us per rank.
    before = run(*splits, kernels=tuple(("MatMul", step, 20 * US) for step in range(4)))
    after = run(*splits, kernels=(*(("Add", step, 6 * US) for step in range(4)), ("MatMul", None, 99 * US)))
    rows = {row.name: row for row in compare(before, after).names["kernels"]}
    assert (rows["MatMul"].before_ns, rows["MatMul"].after_ns) == (10 * US, 0)
    assert (rows["Add"].before_ns, rows["Add"].after_ns, rows["Add"].after_calls) == (0, 3 * US, 0.5)
    assert [row.name for row in compare(before, after).names["kernels"]] == ["MatMul", "Add"]


def test_a_capture_without_marked_steps_is_one_step() -> None:
    one = run(split(None, 100 * US, 0), kernels=(("MatMul", None, 5 * US),))
    found = compare(one, one)
    assert found.steps == (1, 1)
    assert found.names["kernels"][0].before_ns == 5 * US


def test_a_long_table_of_chance_holds_no_find() -> None:
    random = np.random.default_rng(7)

    def noisy() -> ComparedRun:
        values = random.normal(50 * US, 5 * US, size=(300, 12)).astype(int)
        rows = [(f"k{name}", step, int(values[name, step])) for name in range(300) for step in range(12)]
        return run(*steady(0, 12), kernels=tuple(rows))

    found = [compare(noisy(), noisy()).names["kernels"] for _ in range(10)]
    # One table in twenty may hold one: of 3000 names, without the correction 150 would.
    assert sum(row.verdict != "no change seen" for rows in found for row in rows) <= 3


def test_findings_come_go_and_stay() -> None:
    def found(code: str, blame: str, cost: int) -> ComparedFinding:
        return ComparedFinding(code=code, fault=None, message=code, blames=(blame,), cost_ns=cost)

    before = run(
        *steady(0), findings=(found("COM002", "rank 5", 30), found("COM002", "rank 2", 9), found("CPU004", "", 4))
    )
    after = run(*steady(0), findings=(found("COM002", "rank 2", 8), found("MEM001", "", 2)))
    changes = [(one.state, one.code, one.before_ns, one.after_ns) for one in compare(before, after).findings]
    assert changes == [
        ("went", "COM002", 30, None),
        ("went", "CPU004", 4, None),
        ("came", "MEM001", None, 2),
        ("stayed", "COM002", 9, 8),
    ]


def test_only_settings_that_differ_are_shown() -> None:
    before = run(*steady(0), said={("job", "a"): "1", ("job", "b"): "2"})
    after = run(*steady(0), said={("job", "a"): "1", ("job", "b"): "3", ("job", "c"): ""})
    found = compare(before, after).settings
    assert [(one.name, one.before, one.after) for one in found] == [("b", "2", "3"), ("c", None, "")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=40), st.integers(1, 3))
def test_the_parts_add_up_to_the_window(values: list[tuple[int, int, int]], ranks: int) -> None:
    splits = [split(step, *times, rank=rank) for step, times in enumerate(values) for rank in range(ranks)]
    found = compare(run(*splits), run(*splits[::-1]))
    for side in ("before_ns", "after_ns"):
        total = sum(getattr(part, side) for part in found.parts)
        assert abs(total - getattr(found.step, side)) <= 2  # each is rounded by itself
    assert all(part.change_ns == 0 for part in (found.step, *found.parts))


@pytest.mark.parametrize(
    ("freedom", "compared", "exact"), [(4, 1, 2.776), (10, 1, 2.228), (60, 1, 2.000), (20, 100, 4.146), (8, 25, 4.501)]
)
def test_the_limit_is_the_quantile_of_students_t(freedom: int, compared: int, exact: float) -> None:
    """Quantiles of the t distribution as tables print them."""
    assert math.isclose(_limit(freedom, compared), exact, rel_tol=0.02)


def test_a_change_knows_its_verdict() -> None:
    change = TimeChange(kind="compute", name="a", before_ns=100, after_ns=130, margin_ns=30)
    assert (change.change_ns, change.verdict) == (30, "no change seen")


def test_each_rank_stands_beside_its_own_of_the_other_run() -> None:
    before = [replace(one, rank=rank) for rank in (0, 1, 2) for one in steady(50 * US)]
    after = [replace(one, rank=rank) for rank in (1, 2, 3) for one in steady((50 if rank == 1 else 20) * US)]
    found = pair_typical_steps(run(*before), run(*after))
    assert [(row.rank, row.times[0].verdict) for row in found] == [(1, "no change seen"), (2, "less")]
    assert [time.name for time in found[0].times] == ["window", "compute", "exposed_comm", "copy_exposed", "free"]


def test_of_more_ranks_one_has_to_change_by_more() -> None:
    sides = [
        run(*(replace(one, rank=rank) for rank in range(64) for one in steady(comm))) for comm in (50 * US, 50 * US)
    ]
    many, alone = pair_typical_steps(*sides)[0].times[0], compare(run(*steady(50 * US)), run(*steady(50 * US))).step
    assert (many.margin_ns or 0) > (alone.margin_ns or 0) > 0


def test_steps_stand_beside_each_other_by_their_place() -> None:
    found = pair_all_steps(
        run(*(split(step, 100, 10) for step in (7, 5, 6))), run(split(90, 80, 10), split(91, 100, 10))
    )
    assert [(row.steps, row.times[0].change_ns) for row in found] == [((5, 90), -20), ((6, 91), 0)]
    assert {row.times[0].verdict for row in found} == {"not known"}


# What the runs do not share ------------------------------------------------------------------------------------------

STEPS = range(8)


def working(*names: str, steps: range = STEPS, ranks: tuple[int, ...] = (0, 1), calls: int = 2) -> ComparedRun:
    """A steady run that calls operators of the device, each so often a step and rank, and one of the host."""
    splits = tuple(split(step, 100 * US, 7 * (step % 3), rank=rank) for step in steps for rank in ranks)
    of = len(ranks) * calls
    rows = [(name, step, (9 - at) * US * of, of) for at, name in enumerate(names) for step in steps]
    names_of = {
        "operators": table("compute", *rows),
        "host": table("op", *((f"aten::{row[0]}", *row[1:]) for row in rows)),
    }
    return replace(run(*splits), names=names_of)


def told(before: ComparedRun, after: ComparedRun) -> tuple[str, list[str]]:
    found = compare(before, after)
    return found.outcome, [one.identifier for one in found.unmet]


def test_runs_that_share_everything_are_as_fast() -> None:
    assert told(working("mm", "add"), working("mm", "add")) == ("as fast", [])
    assert compare(working("mm"), working("mm")).answer.identifier == "compare.as_fast"


@pytest.mark.parametrize(
    ("other", "missing"),
    [
        (working("mm", "add", ranks=(0,)), "compare.ranks"),
        (working("mm", "add", steps=range(3)), "compare.steps_of"),
        (working("mm"), "compare.only_operators"),
        (working("mm", "add", calls=6), "compare.calls"),
        (replace(working("mm", "add"), lacks=("the file ends in the middle of a line",)), "compare.incomplete"),
        (replace(working("mm", "add"), names={**working("mm", "add").names, "host": table("op")}), "compare.only_kind"),
        (replace(working("mm", "add"), splits=tuple(
            replace(one, exposed_comm_ns=None) for one in working("mm").splits)), "compare.only_kind"),
    ],
    ids=["ranks", "steps", "operators", "calls", "damage", "kind", "part"],
)  # fmt: skip
def test_what_one_run_lacks_is_never_as_fast(other: ComparedRun, missing: str) -> None:
    whole = working("mm", "add")
    for pair in ((whole, other), (other, whole)):
        assert told(*pair) == ("not all compared", [missing])
        found = compare(*pair)
        assert not found.holds
        assert (found.answer.identifier, found.answer["what"]) == ("compare.not_all", found.unmet)


def test_steps_that_one_rank_alone_lacks_are_named() -> None:
    whole = working("mm")
    cut = replace(whole, splits=tuple(one for one in whole.splits if one.rank == 0 or (one.step or 0) < 5))
    missing = compare(whole, cut).unmet[0]
    assert (missing["ranks"], missing["before"]["n"], missing["after"]["n"]) == ((1,), 8, 5)


def test_runs_without_work_of_a_device_are_held_by_what_the_host_calls() -> None:
    host = [replace(one, names={**one.names, "operators": table("compute")}) for one in (working("mm"), working("add"))]
    assert told(host[0], host[1]) == ("not all compared", ["compare.only_operators"] * 2)
    assert told(host[0], host[0]) == ("as fast", [])


def test_the_largest_of_many_operators_are_named() -> None:
    (missing,) = compare(working("mm", "a", "b", "c", "d"), working("mm")).unmet
    assert (missing["count"], missing["of"], missing["names"]) == (4, 5, ("a", "b", "c"))


def test_an_operator_of_some_steps_alone_is_no_other_work() -> None:
    every = [("mm", step, US, 2) for step in STEPS]
    odd = [("log", step, US, 1) for step in STEPS if step % 2]
    first, second = (
        replace(working("mm"), names={"operators": table("compute", *every, *rows)}) for rows in (odd, odd[:-1])
    )
    assert told(first, second) == ("as fast", [])


def test_a_long_list_of_what_is_missing_is_cut_in_the_answer() -> None:
    many = replace(working("add", ranks=(0, 2)), lacks=tuple(f"file {number} is cut" for number in range(9)))
    found = compare(working("mm"), many)
    assert len(found.unmet) == 13
    assert [one.identifier for one in found.answer["what"]][-1] == "compare.more"
    assert found.answer["what"][-1]["n"] == 10


def test_the_answer_says_what_the_step_did() -> None:
    slow, fast = run(*steady(50 * US)), run(*steady(20 * US))
    found = compare(fast, slow)
    assert (found.outcome, found.answer.identifier, found.holds) == ("slower", "compare.slower", False)
    assert found.answer["change"] == found.step.change_ns
    found = compare(slow, fast)
    assert (found.outcome, found.answer.identifier, found.holds) == ("faster", "compare.faster", True)
    found = compare(run(*steady(50 * US, 2)), run(*steady(50 * US, 2)))
    assert (found.outcome, found.answer.identifier, found.holds) == ("not known", "compare.not_known", False)
