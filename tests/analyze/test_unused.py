"""Gradients that no optimizer uses, and the nodes of the backward pass that lead to them alone."""

from __future__ import annotations

import polars as pl

from hermes.analyze.host_measures import UnusedGradients
from hermes.analyze.measures import StepSplit
from hermes.analyze.unused import OPTIMIZER, unused_gradients
from hermes.tables import TABLES, empty

GRADIENT = "torch::autograd::AccumulateGrad"
FORWARD = "forward"
SMALL, LARGE, BIAS = "4,4", "8,8", "4"
MAIN, ENGINE = 1, 2


def split() -> StepSplit:
    return StepSplit(
        rank=0, step=0, window_kind="host", start_ns=0, window_ns=1_000, compute_ns=None, comm_ns=None,
        exposed_comm_ns=None, overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None,
        preparing_ns=None, host_ns=1_000,
    )  # fmt: skip


def row(name: str, start: int, length: int, **more: object) -> dict[str, object]:
    plain = {"kind": "op", "pid": 1, "tid": MAIN, "shapes": None, "sequence": None, "forward_tid": None}
    return plain | {"correlation": None, "name": name, "start_ns": start, "dur_ns": length} | more


def calls(*steps: str, at: int = 0, tid: int = MAIN) -> list[dict[str, object]]:
    """Ten nanoseconds each: `forward`; `XBackward0`, a node; `+shape`, a gradient; `=a;b`, an optimizer's step."""
    rows = []
    for place, what in enumerate(steps):
        start = at + place * 10
        if what == FORWARD:
            rows.append(row("aten::mm", start, 10, sequence=start))
        elif what.startswith("+"):
            rows.append(row(f"autograd::engine::evaluate_function: {GRADIENT}", start, 10, tid=tid))
            rows.append(row(GRADIENT, start + 1, 8, shapes=what[1:] or None, tid=tid))
        elif what.startswith("="):
            rows.append(row(f"{OPTIMIZER}AdamW.step", start, 10, kind="mark"))
            rows.append(row("aten::_fused_adamw_", start + 2, 5, shapes=what[1:] or None))
        else:
            rows.append(row(f"autograd::engine::evaluate_function: {what}", start, 10, tid=tid))
            rows.append(row(what, start + 2, 5, sequence=3, forward_tid=1, tid=tid))
    return rows


def measured(
    rows: list[dict[str, object]], kernel: pl.DataFrame | None = None, until: int = 10_000
) -> UnusedGradients | None:
    """Of all rows that begin before `until`; those behind belong to other steps."""
    table = pl.DataFrame(rows, schema_overrides={"correlation": pl.Int64, "sequence": pl.Int64, "forward_tid": pl.Int64,
                                                 "shapes": pl.String})  # fmt: skip
    end = pl.col("start_ns") + pl.col("dur_ns")
    return unused_gradients(
        split(),
        table.filter(pl.col("start_ns") < until),
        table.filter(pl.col("name").str.starts_with(OPTIMIZER)),
        lambda first, last: table.filter((pl.col("start_ns") < last) & (end >= first)),
        empty(TABLES["kernel"]) if kernel is None else kernel,
        empty(TABLES["flow"]),
    )


def taken(rows: list[dict[str, object]]) -> tuple[int, int, int, int]:
    found = measured(rows)
    assert found is not None
    return found.gradients, found.unused, found.whole.host_ns, found.partly.host_ns


STUDENT = ("LossBackward0", "MmBackward0", f"+{SMALL}", f"+{BIAS}")
TEACHER = ("SoftmaxBackward0", "MmBackward0", f"+{LARGE}", "ReluBackward0", "MmBackward0", f"+{LARGE}")
UPDATE = f"={SMALL};{BIAS};{SMALL};{BIAS}"


def test_behind_the_last_gradient_that_is_used_all_nodes_are_for_nothing() -> None:
    found = measured(calls(FORWARD, *STUDENT, *TEACHER, UPDATE))
    assert found is not None
    assert (found.gradients, found.unused, found.shapes) == (4, 2, ((LARGE, 2),))
    # Each node is recorded twice, by the engine and by itself, and so is each gradient.
    assert (found.whole.host_ns, found.whole.calls) == (60, 12)
    assert (found.whole.device_ns, found.partly.host_ns, found.compute_ns) == (None, 0, None)


def test_a_node_that_may_lead_to_more_is_for_nothing_in_part() -> None:
    # Gradients are taken for nothing; of the nodes only those that computed them count, not what stands between.
    middle = ("LossBackward0", "MmBackward0", f"+{LARGE}", "ReluBackward0", "MmBackward0", "TBackward0", f"+{LARGE}")
    assert taken(calls(FORWARD, *middle, "MmBackward0", f"+{SMALL}", UPDATE)) == (3, 2, 20, 20)


def test_a_step_in_which_every_gradient_is_used_wastes_nothing() -> None:
    assert taken(calls(FORWARD, *STUDENT, UPDATE)) == (2, 0, 0, 0)
    # Two networks with an optimizer each.
    both = (*STUDENT, UPDATE, FORWARD, *TEACHER, f"={LARGE};{LARGE}")
    assert taken(calls(FORWARD, *both)) == (4, 0, 0, 0)


def test_one_alone_may_be_the_gradient_of_an_input() -> None:
    attack = calls(FORWARD, *STUDENT, "MmBackward0", f"+{LARGE}", UPDATE)
    assert taken(attack) == (3, 0, 0, 0)


def test_each_backward_pass_of_a_step_is_looked_at_alone() -> None:
    micro = (FORWARD, *STUDENT, *TEACHER)
    assert taken(calls(*micro, *micro, UPDATE)) == (8, 4, 120, 0)


def test_a_step_that_is_repeated_wastes_what_it_wastes_alone() -> None:
    alone = calls(FORWARD, *STUDENT, *TEACHER, UPDATE)
    again = alone + calls(FORWARD, *STUDENT, *TEACHER, UPDATE, at=500)
    assert measured(again, until=400) == measured(alone)


def test_what_optimizers_of_other_steps_use_is_used() -> None:
    turns = calls(FORWARD, *STUDENT, *TEACHER, UPDATE) + calls(f"={LARGE}", at=500)
    found = measured(turns, until=400)
    assert found is not None
    assert found.unused == 0


JUDGED = ("LossBackward0", "MmBackward0", f"+{SMALL}", f"+{BIAS}")
PAINTER = ("TanhBackward0", "MmBackward0", f"+{LARGE}", "MmBackward0", f"+{LARGE}")
PAINTS = f"={LARGE};{LARGE}"


def dropped(*steps: str) -> tuple[int, int, int]:
    found = measured(calls(*steps))
    assert found is not None
    return found.dropped, found.unused, found.whole.host_ns


def test_gradients_that_a_critic_leaves_in_a_painter_are_dropped_where_that_begins_anew() -> None:
    learns = (FORWARD, "LossBackward0", *PAINTER, PAINTS)
    assert dropped(FORWARD, *JUDGED, *PAINTER, UPDATE, *learns) == (2, 2, 50)
    # The step may begin anywhere in the loop.
    assert dropped(*learns, FORWARD, *JUDGED, *PAINTER, UPDATE) == (2, 2, 50)


def test_gradients_that_others_are_added_to_are_kept() -> None:
    steps = calls(FORWARD, *JUDGED, *PAINTER, UPDATE, FORWARD, "LossBackward0", *PAINTER, PAINTS)
    moments = [one["start_ns"] for one in steps if one["name"] == GRADIENT and one["shapes"] == LARGE][2:]
    added = [row("aten::add_", int(str(moment)) + 2, 2) for moment in moments]
    found = measured([*steps, *added])
    assert found is not None
    assert (found.dropped, found.unused) == (0, 0)


def test_networks_that_take_turns_drop_nothing() -> None:
    # One backward pass for both, then both optimizers; and each after its own pass.
    assert dropped(FORWARD, *JUDGED, *PAINTER, UPDATE, PAINTS) == (0, 0, 0)
    assert dropped(FORWARD, *JUDGED, *PAINTER, PAINTS, UPDATE) == (0, 0, 0)
    assert dropped(FORWARD, *JUDGED, UPDATE, FORWARD, "LossBackward0", *PAINTER, PAINTS) == (0, 0, 0)


def test_one_optimizer_that_steps_twice_a_step_drops_nothing() -> None:
    assert dropped(FORWARD, *STUDENT, UPDATE, FORWARD, *STUDENT, UPDATE) == (0, 0, 0)


def test_it_is_not_measured_where_a_step_has_no_optimizer() -> None:
    assert measured(calls(FORWARD, *STUDENT, *TEACHER)) is None
    later = calls(FORWARD, *STUDENT, *TEACHER) + calls(UPDATE, at=500)
    assert measured(later, until=400) is None


def test_it_is_not_measured_without_shapes() -> None:
    assert measured(calls(FORWARD, "MmBackward0", "+", "+", "=")) is None
    assert measured(calls(FORWARD, *STUDENT, *TEACHER, "=")) is None
    assert measured(calls(FORWARD, UPDATE)) is None


def test_flat_or_sharded_parameters_have_other_shapes_than_gradients() -> None:
    # A piece of all weights in a row; biases may be whole in it.
    assert measured(calls(FORWARD, *STUDENT, *TEACHER, "=16;64")) is None
    assert measured(calls(FORWARD, *STUDENT, *TEACHER, f"=40;{BIAS}")) is None


def test_an_optimizer_that_is_shared_out_updates_more_than_a_rank_sees() -> None:
    rows = calls(FORWARD, *STUDENT, *TEACHER, UPDATE)
    for one in rows:
        one["name"] = str(one["name"]).replace("AdamW.step", "ZeroRedundancyOptimizer.step")
    assert measured(rows) is None


def test_an_optimizer_that_is_not_seen_to_work_may_use_any_gradient() -> None:
    assert measured(calls(FORWARD, *STUDENT, *TEACHER, UPDATE, "=")) is None


def test_a_head_on_a_large_frozen_network_has_few_of_the_gradients() -> None:
    frozen = [f"+{LARGE}", "MmBackward0"] * 30
    assert taken(calls(FORWARD, *STUDENT, *frozen, f"+{LARGE}", UPDATE)) == (33, 31, 610, 0)


def test_the_loop_may_run_inside_the_optimizer_as_a_closure() -> None:
    rows = calls(FORWARD, *STUDENT, *TEACHER)
    rows[0]["shapes"] = LARGE
    rows.append(row("aten::detach", 103, 2, shapes=LARGE))
    behind = row("aten::_fused_adamw_", 120, 5, shapes=f"{SMALL};{BIAS}")
    step = row(f"{OPTIMIZER}AdamW.step", 0, 200, kind="mark")
    assert taken([*rows, step, behind]) == (4, 2, 60, 0)


def test_kernels_that_wasted_nodes_launched_are_told_on_the_engines_own_thread() -> None:
    rows = calls(FORWARD, *STUDENT, *TEACHER, UPDATE, tid=ENGINE)
    rows += [row("cudaLaunchKernel", start, 2, kind="runtime", tid=ENGINE, correlation=start) for start in (22, 63, 93)]
    kernel = empty(TABLES["kernel"])
    tasks = pl.DataFrame({"component": "compute", "start_ns": [200, 300, 400], "dur_ns": [30, 40, 50],
                          "correlation": [22, 63, 93]})  # fmt: skip
    kernel = pl.concat([kernel, tasks.cast({n: kernel.schema[n] for n in tasks.columns})], how="diagonal")
    found = measured(rows, kernel)
    assert found is not None
    assert (found.whole.host_ns, found.whole.device_ns, found.compute_ns) == (60, 90, 120)
