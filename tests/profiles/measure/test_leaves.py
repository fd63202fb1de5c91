"""The leaves of a rank add up to its steps, and each nanosecond is what the definitions of docs/tree.md say."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.model.tables.unmarked_steps import WHOLE
from hermes.profiles.load import load
from hermes.profiles.measure.leaves import nesting
from hermes.profiles.measure.leaves.call_trees import LEAVES
from hermes.profiles.measure.leaves.labelled_stretches import cut_at, found_in, stretches_outside
from hermes.profiles.measure.leaves.leaves_of_rank import NO_WAITS, RankLeaves, leaves, tree, typical
from hermes.profiles.measure.leaves.lost_lead import _payers
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.steps.breakdown import rank_total
from hermes.profiles.pipeline.job_leaves import job_leaves
from hermes.store.cache import Cache
from hermes_testing import draw

TABLES = ("host_op", "kernel", "comm_op", "flow", "step", "gc", "stack")


def drawn(text: str, *, cell_ns: int = 1_000, waits: pl.DataFrame = NO_WAITS) -> RankLeaves:
    tables = draw(text, scale_ns=cell_ns)
    return tree(**{name: tables[name] for name in TABLES}, waits=waits)


def cells(text: str, *, cell_ns: int = 1_000, waits: pl.DataFrame = NO_WAITS) -> Mapping[str, float]:
    """By leaf how many cells it takes, in all steps."""
    made = drawn(text, cell_ns=cell_ns, waits=waits)
    sums: dict[str, float] = {}
    for leaf, ns in made.parts.select("leaf", "ns").iter_rows():
        sums[LEAVES[leaf].value] = sums.get(LEAVES[leaf].value, 0) + ns / cell_ns
    assert sum(sums.values()) * cell_ns == made.windows.lengths.sum()
    return sums


# The device is busy ---------------------------------------------------------------------------------------------------


def test_compute_goes_before_communication_and_that_before_copies() -> None:
    found = cells("""
        rank0.step     [########]
        rank0.compute  ###.......
        rank0.comm     ..####....
        rank0.copy     ....######
    """)
    assert found == {"other_compute": 3, "communication": 3, "exposed_copy": 4}


def test_communication_is_waiting_until_the_last_rank_has_arrived() -> None:
    waits = pl.DataFrame({"comm_id": [0], "split": [True], "wait_ns": [4_000], "last": [3]})
    text = """
        rank0.step     [########]
        rank0.compute  ###.......
        rank0.comm     .#########
    """
    # One cell of the wait is hidden, and so is the first of the transfer never.
    assert cells(text, waits=waits) == {"other_compute": 3, "wait": 2, "transfer": 5}
    (awaited,) = drawn(text, waits=waits).parts.filter(pl.col("leaf") == LEAVES.index(Leaf.WAIT))["awaited"]
    assert awaited == 3


def test_a_step_lasts_from_the_end_of_the_last_task_before_to_the_end_of_its_own() -> None:
    made = drawn("""
        rank0.step#5   [####][####]........
        rank0.call     A.....B.............
        rank0.compute  ...AAAAAA...BBBBBBBB
    """)
    assert made.windows.step.tolist() == [5, 6]
    assert made.windows.start.tolist() == [0, 9_000]
    assert made.windows.end.tolist() == [9_000, 20_000]


def test_a_last_mark_without_any_launch_is_no_step() -> None:
    made = drawn("""
        rank0.step#5   [####][####]
        rank0.call     A...........
        rank0.compute  ...AAAAAA...
    """)
    assert made.windows.step.tolist() == [5]


# The device is idle ---------------------------------------------------------------------------------------------------


def test_an_operator_that_launches_nothing_computes_on_the_host() -> None:
    found = cells("""
        rank0.step     [##################]
        rank0.host     SSSSSSSSSSSSSSA.....
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """, cell_ns=10_000)  # fmt: skip
    assert found == {"host_operator": 14, "dispatch": 1, "other_compute": 5}


def test_small_operators_are_dispatch() -> None:
    found = cells("""
        rank0.step     [##################]
        rank0.host     SSS.TTT.UUUU..A.....
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """)
    assert found == {"dispatch": 15, "other_compute": 5}


def test_what_was_launched_before_the_gap_is_queued_and_not_the_host_s_work() -> None:
    found = cells("""
        rank0.step     [##################]
        rank0.call     AB..................
        rank0.host     ..SSSSSSSSSSSSSSSSSS
        rank0.compute  .AAAA..........BBBBB
    """)
    assert found == {"dispatch": 1, "other_compute": 9, "queued": 10}


def test_a_wait_for_the_device_pays_for_the_lead_that_it_destroys() -> None:
    found = cells("""
        rank0.step     [##################]
        rank0.call     A........B.C........
        rank0.sync     .AAAAAAA............
        rank0.compute  .AAAAAAA..B..CCCCCCC
    """)
    # The host had run ahead by seven cells; two gaps of dispatch would have been hidden by them.
    assert found == {"other_compute": 15, "dispatch": 1, "synchronisation": 4}


def test_lost_lead_is_paid_by_the_latest_wait_and_no_wait_pays_more_than_the_device_worked_in_it() -> None:
    text = """
        rank0.step     [######################]
        rank0.call     A.......B....C..D...E...
        rank0.sync     .LLLLLL...SSS...........
        rank0.compute  .AAAAAA..BB....C...D...E
    """
    tables = draw(text, scale_ns=3_000)
    name = pl.when(pl.col("dur_ns") == 18_000).then(pl.lit("cudaEventSynchronize")).otherwise("name").alias("name")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": tables["host_op"].with_columns(name)})
    lost = made.parts.filter(pl.col("how") == list(How).index(How.LOST_LEAD))
    # The device worked for six cells in the long wait, and for one in the short one, which pays the next cell.
    assert dict(lost.group_by("what").agg(pl.col("ns").sum() // 3_000).iter_rows()) == {
        "cudaEventSynchronize": 6, "deviceSynchronize": 1,
    }  # fmt: skip


def test_a_wait_inside_an_operator_that_reads_a_number_has_the_name_of_the_operator() -> None:
    text = """
        rank0.step     [##################]
        rank0.host     .IIIIIII............
        rank0.call     A........B.C........
        rank0.sync     ..LLLLL.............
        rank0.compute  .AAAAAA...B..CCCCCCC
    """
    tables = draw(text, scale_ns=3_000)
    host = tables["host_op"].with_columns(pl.col("name").replace({"I": "aten::item"}))
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": host})
    waits = made.parts.filter(pl.col("leaf") == list(Leaf).index(Leaf.SYNCHRONISATION))
    assert waits["what"].unique().to_list() == ["aten::item"]


@pytest.mark.parametrize("seed", range(40))
def test_who_pays_what_was_asked_is_the_latest_wait_that_still_can(seed: int) -> None:
    dice = random.Random(seed)
    lost, asked = ([dice.randint(0, 5) for _ in range(dice.randint(0, 8))] for _ in range(2))
    asked = (asked + [0] * len(lost))[: len(lost)]
    units, wanted = list[int](), dict[tuple[int, int], int]()
    for place, (lead, due) in enumerate(zip(lost, asked, strict=True)):
        units += [place] * lead
        for payer in units[::-1][:due]:
            wanted[payer, place] = wanted.get((payer, place), 0) + 1
        units = units[: max(len(units) - due, 0)]
    payers, paid, behind = _payers(np.array(lost, dtype=np.int64), np.array(asked, dtype=np.int64))
    found = {
        (payer, place): ns for payer, place, ns in zip(payers.tolist(), behind.tolist(), paid.tolist(), strict=True)
    }
    assert found == wanted


def test_a_wait_that_outlasts_the_work_of_the_device_keeps_the_time_in_it() -> None:
    text = """
        rank0.step     [#####################]
        rank0.call     A......B.C.....D.E....
        rank0.sync     .LLLLLL...LLLLL.......
        rank0.compute  .AA....BB..C....D.EEEE
    """
    # For eight cells the host is in a call with nothing queued; three more pay for the lead that was lost.
    assert cells(text, cell_ns=3_000) == {"other_compute": 10, "dispatch": 1, "synchronisation": 11}


def test_calls_that_wait_with_nothing_queued_are_their_own_however_many_and_short() -> None:
    made = drawn(
        """
        rank0.step     [##################]
        rank0.host     CCCCCCCCCCCCCCCCCCCC
        rank0.call     A...................
        rank0.sync     ..S.S.S.S.S.S.S.S.S.
        rank0.compute  A..................B
        """,
        cell_ns=5_000,
    )
    waits = made.parts.filter(pl.col("leaf") == LEAVES.index(Leaf.SYNCHRONISATION))
    assert waits["ns"].sum() == 9 * 5_000
    assert set(waits.select("what", "place").rows()) == {("deviceSynchronize", "C")}


def test_a_wait_in_an_operator_that_launches_nothing_is_the_calls_and_the_rest_the_operators() -> None:
    text = """
        rank0.step     [##################]
        rank0.host     SSSSSSSSSSSSSSA.....
        rank0.sync     ....WWWWWWWW........
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """
    assert cells(text, cell_ns=10_000) == {
        "host_operator": 6, "synchronisation": 8, "dispatch": 1, "other_compute": 5
    }  # fmt: skip


def test_the_latency_of_a_launch_is_of_the_call_that_waits_for_it() -> None:
    text = """
        rank0.step     [####################]
        rank0.host     CCCCCCCCCCCCCCCCCCCCC
        rank0.call     A.......B............
        rank0.sync     .WWWWWW..WWWWWW......
        rank0.compute  ....A.......B........
    """
    assert cells(text, cell_ns=4_000) == {"other_compute": 2, "synchronisation": 9, "dispatch": 2}
    # A host that goes on to launch loses the latency to the launch.
    assert cells(text.replace("W", "."), cell_ns=4_000) == {"other_compute": 2, "dispatch": 11}


def test_the_latency_of_a_launch_is_no_wait_of_a_thread_that_launches_other_work() -> None:
    text = """
        rank0.step     [####################]
        rank0.host@7   FFFFFFFFFFFFFFFFFFFFF
        rank0.call@7   A..B.................
        rank0.sync     .WWWWW...............
        rank0.compute  A.....BBBBBBBBBBBBBBB
    """
    assert cells(text, cell_ns=4_000) == {"other_compute": 16, "dispatch": 5}


@pytest.mark.parametrize("name", ["torch/cuda/__init__.py(954): synchronize", "<built-in function _cuda_synchronize>"])
def test_a_frame_that_waits_for_the_device_is_a_wait_where_the_runtimes_calls_were_not_recorded(name: str) -> None:
    tables = draw("""
        rank0.step     [##################]
        rank0.python   PPPPPPPPPPPPPP......
        rank0.compute  AAAA...........BBBBB
    """, scale_ns=10_000)  # fmt: skip
    named = pl.when(pl.col("kind") == "python").then(pl.lit(name)).otherwise("name").alias("name")
    made = tree(**{table: tables[table] for table in TABLES} | {"host_op": tables["host_op"].with_columns(named)})
    waits = made.parts.filter(pl.col("leaf") == LEAVES.index(Leaf.SYNCHRONISATION))
    # The device works in the first four cells of the frame; one short pause after it is the lead that was lost.
    assert waits["ns"].sum() == 11 * 10_000
    assert all("synchronize" in what for what in waits["what"])


def test_a_long_gap_inside_one_launch_is_silent_and_a_short_one_is_queued() -> None:
    text = """
        rank0.step     [######################]
        rank0.call     A...............B.......
        rank0.compute  .AA.AA..........AAA.B...
    """
    tables = draw(text, scale_ns=40_000)
    # As the nodes of one graph, all tasks of A are of one launch.
    first = tables["kernel"]["correlation"][0]
    of_graph = pl.when(pl.col("name") == "A").then(pl.lit(first)).otherwise("correlation").alias("correlation")
    made = tree(**{name: tables[name] for name in TABLES} | {"kernel": tables["kernel"].with_columns(of_graph)})
    sums = (
        made.parts.filter(pl.col("how") == list(How).index(How.INSIDE_GRAPH)).group_by("leaf").agg(pl.col("ns").sum())
    )
    assert {LEAVES[leaf]: ns // 40_000 for leaf, ns in sums.iter_rows()} == {Leaf.QUEUED: 1, Leaf.SILENT: 10}


def test_a_pause_in_which_nothing_is_recorded_is_not_the_work_of_a_call() -> None:
    text = """
        rank0.step     [##################]
        rank0.call     A.................B.
        rank0.compute  .A.................B
    """
    assert cells(text, cell_ns=20_000) == {"dispatch": 2, "other_compute": 2, "not_recorded": 16}


def test_unrecorded_time_lies_before_the_next_call_of_the_thread_that_launches_the_next_task() -> None:
    made = drawn(
        """
        rank0.step      [##################]
        rank0.host      FF...........UUU....
        rank0.host@7    ......NNN...........
        rank0.call      .F............U.....
        rank0.call@7    .......N............
        rank0.compute   ..FF....NN.....UUUUU
        """,
        cell_ns=200_000,
    )  # fmt: skip
    silent = made.parts.filter(pl.col("leaf") == LEAVES.index(Leaf.NOT_RECORDED))
    assert dict(silent.group_by("what").agg(pl.col("ns").sum() // 200_000).iter_rows()) == {"N": 2, "U": 3}


def test_a_line_of_python_is_its_own_leaf_and_short_ones_lie_between_calls() -> None:
    found = cells("""
        rank0.step     [##################]
        rank0.python   PPPPPPPPPPPPPP......
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """, cell_ns=10_000)  # fmt: skip
    assert found == {"python": 14, "dispatch": 1, "other_compute": 5}


@pytest.mark.parametrize(
    ("name", "found"),
    [("train.py(7): parse", {"python": 20}), ("torch/optim/optimizer.py(7): step", {"dispatch": 20})],
)
def test_short_functions_of_the_users_in_a_row_are_python_and_those_of_the_framework_dispatch(
    name: str, found: Mapping[str, int]
) -> None:
    tables = draw("""
        rank0.step     [##################]
        rank0.python   ABABABABABABABABABAB
    """, scale_ns=10_000)  # fmt: skip
    named = {"python": name, "step": "ProfilerStep#0"}
    names = pl.col("kind").replace_strict(named, default=pl.col("name")).alias("name")
    made = tree(**{table: tables[table] for table in TABLES} | {"host_op": tables["host_op"].with_columns(names)})
    sums = made.parts.group_by("leaf").agg(pl.col("ns").sum())
    assert {LEAVES[leaf].value: ns // 10_000 for leaf, ns in sums.iter_rows()} == found


def test_a_range_in_a_frame_hides_no_line_of_python() -> None:
    tables = draw("""
        rank0.step     [##################]
        rank0.python   PPPPPPPPPPPPPP......
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """, scale_ns=10_000)  # fmt: skip
    frame = tables["host_op"].filter(pl.col("kind") == "python")
    mark = frame.with_columns(
        pl.lit("mark").alias("kind"), pl.lit("epoch").alias("name"), pl.col("start_ns") + 10_000,
        pl.col("dur_ns") - 20_000,
    )  # fmt: skip
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": pl.concat([tables["host_op"], mark])})
    sums = made.parts.group_by("leaf").agg(pl.col("ns").sum())
    assert {LEAVES[leaf].value: ns // 10_000 for leaf, ns in sums.iter_rows()} == {
        "python": 14, "dispatch": 1, "other_compute": 5
    }  # fmt: skip


def test_without_a_device_operators_are_leaves_by_class() -> None:
    tables = draw("""
        rank0.step     [########]
        rank0.host     AAAABBBB..
    """, scale_ns=10_000)  # fmt: skip
    named = pl.col("name").replace({"A": "aten::mm", "B": "aten::add"})
    found = tree(**{name: tables[name] for name in TABLES} | {"host_op": tables["host_op"].with_columns(named)})
    by_leaf = dict(found.parts.group_by("leaf").agg(pl.col("ns").sum()).iter_rows())
    assert {LEAVES[leaf].value: ns for leaf, ns in by_leaf.items()} == {
        "matrix_product": 40_000, "elementwise": 40_000, "dispatch": 20_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("outer", "inner", "leaf"),
    [("aten::linear", "aten::addmm", Leaf.DISPATCH), ("aten::mm", "aten::empty", Leaf.MATRIX_PRODUCT),
     ("mine::outer", "mine::inner", Leaf.OTHER_COMPUTE)],
)  # fmt: skip
def test_an_operator_that_holds_one_of_its_class_passes_the_work_on(outer: str, inner: str, leaf: Leaf) -> None:
    tables = draw("""
        rank0.step     [########]
        rank0.host     AAAAAAAAAA
    """, scale_ns=10_000)  # fmt: skip
    call = tables["host_op"].filter(pl.col("kind") == "op").with_columns(pl.lit(outer).alias("name"))
    within = call.with_columns(pl.lit(inner).alias("name"), pl.col("start_ns") + 40_000, pl.col("dur_ns") - 60_000)
    marks = tables["host_op"].filter(pl.col("kind") != "op")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": pl.concat([marks, call, within])})
    sums = {LEAVES[one]: ns for one, ns in made.parts.group_by("leaf").agg(pl.col("ns").sum()).iter_rows()}
    assert sums[leaf] >= 60_000


@pytest.mark.parametrize(("own_us", "leaf"), [(90, Leaf.DISPATCH), (110, Leaf.ELEMENTWISE)])
def test_an_operator_that_computes_long_beside_one_of_its_class_computes(own_us: int, leaf: Leaf) -> None:
    """`add_` to a sparse tensor calls a small operator of its class, and adds by itself."""
    tables = draw("""
        rank0.step     [##############]
        rank0.host     AAAAAAAAAAAAAA..
    """, scale_ns=10_000)  # fmt: skip
    call = tables["host_op"].filter(pl.col("kind") == "op").with_columns(pl.lit("aten::add_").alias("name"))
    within = call.with_columns(pl.lit("aten::add").alias("name"), pl.col("dur_ns") - own_us * 1_000)
    marks = tables["host_op"].filter(pl.col("kind") != "op")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": pl.concat([marks, call, within])})
    assert LEAVES[made.parts.filter(pl.col("ns") == own_us * 1_000)["leaf"].item()] is leaf


@pytest.mark.parametrize(("inner", "leaf"), [("_get_data", Leaf.INPUT_WORKERS), ("_next_index", Leaf.INPUT_HERE)])
def test_what_a_loader_does_inside_tells_whether_a_worker_makes_the_batch(inner: str, leaf: Leaf) -> None:
    tables = draw("""
        rank0.step     [##########]
        rank0.python   ..PPPPPPPP..
    """, scale_ns=10_000)  # fmt: skip
    frame = tables["host_op"].filter(pl.col("kind") == "python")
    outer = frame.with_columns(pl.lit("torch/utils/data/dataloader.py(720): __next__").alias("name"))
    within = frame.with_columns(
        pl.lit(f"torch/utils/data/dataloader.py(1433): {inner}").alias("name"), pl.col("start_ns") + 10_000,
        pl.col("dur_ns") - 20_000,
    )  # fmt: skip
    marks = tables["host_op"].filter(pl.col("kind") != "python")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": pl.concat([marks, outer, within])})
    sums = {LEAVES[one]: ns for one, ns in made.parts.group_by("leaf").agg(pl.col("ns").sum()).iter_rows()}
    assert sums[leaf] == 80_000


def test_small_operators_of_an_optimizers_step_are_one_kind_and_its_products_are_products() -> None:
    for device in ("", "rank0.call     ABC...\n rank0.compute  .AA.BBCC"):
        tables = draw(f"""
            rank0.step     [######]
            rank0.host     AAAABBCC
            {device}
        """, scale_ns=10_000)  # fmt: skip
        names = pl.col("name").replace({"A": "aten::mul", "B": "aten::mm", "C": "aten::copy_"})
        first = tables["host_op"].filter(pl.col("kind") == "op").head(1)
        mark = first.with_columns(
            pl.lit("mark").alias("kind"), pl.lit("Optimizer.step#Adam.step").alias("name"),
            pl.lit(80_000, dtype=pl.Int64).alias("dur_ns"),
        )  # fmt: skip
        host_op = pl.concat([tables["host_op"].with_columns(names), mark])
        made = tree(**{name: tables[name] for name in TABLES} | {"host_op": host_op})
        sums = {LEAVES[leaf]: ns for leaf, ns in made.parts.group_by("leaf").agg(pl.col("ns").sum()).iter_rows()}
        assert sums[Leaf.OPTIMIZER] > 0
        assert not {Leaf.ELEMENTWISE, Leaf.LAYOUT} & {*sums}
        assert device or sums[Leaf.MATRIX_PRODUCT] == 20_000


def test_without_a_device_what_a_thread_does_not_record_beside_an_operation_is_a_wait_and_its_transfer() -> None:
    tables = draw("""
        rank0.step     [##################]
        rank0.host     AAAA............BBBB
        rank0.comm     ..############......
    """, scale_ns=50_000)  # fmt: skip
    operation = tables["comm_op"].with_columns(pl.lit("gloo").alias("library"))
    waits = pl.DataFrame({"comm_id": [0], "split": [True], "wait_ns": [450_000], "last": [1]})
    none = tables["kernel"].clear()
    made = tree(**{name: tables[name] for name in TABLES} | {"comm_op": operation, "kernel": none}, waits=waits)
    rows = made.parts.group_by("leaf", "awaited").agg(pl.col("ns").sum() // 50_000)
    # Two cells of the wait are hidden by an operator; what follows the operation is not recorded.
    assert {(LEAVES[leaf], rank, ns) for leaf, rank, ns in rows.iter_rows()} == {
        (Leaf.OTHER_COMPUTE, -1, 8), (Leaf.WAIT, 1, 7), (Leaf.TRANSFER, -1, 3), (Leaf.NOT_RECORDED, -1, 2)
    }  # fmt: skip


def test_a_capture_of_the_device_alone_has_idle_time_that_is_not_recorded() -> None:
    found = cells("""
        rank0.compute  AAA.......BBBB
    """, cell_ns=100_000)  # fmt: skip
    assert found == {"other_compute": 7, "not_recorded": 7}
    # A short gap is dispatch only where the host was recorded.
    gap = """
        rank0.compute  AAA...BBBB
    """
    assert cells(gap) == {"other_compute": 7, "not_recorded": 3}
    assert cells(gap + "    rank0.host     AB........") == {"other_compute": 7, "dispatch": 3}


def test_a_capture_without_marks_is_one_step_without_a_number() -> None:
    tables = draw("""
        rank0.step     [########]
        rank0.host     AAAABBBB..
    """, scale_ns=10_000)  # fmt: skip
    whole = tables["step"].with_columns(pl.lit(WHOLE).alias("name"))
    assert tree(**{name: tables[name] for name in TABLES} | {"step": whole}).windows.step.tolist() == [-1]
    assert tree(**{name: tables[name] for name in TABLES}).windows.step.tolist() == [0]


def renamed(text: str, *, cell_ns: int, range_: str = "", long_call: str = "launch") -> Mapping[str, float]:
    """By leaf how many cells it takes, where host events are ranges of a name, or calls of several cells have one."""
    tables = draw(text, scale_ns=cell_ns)
    in_range = (pl.col("kind") == "op") & bool(range_)
    host_op = tables["host_op"].with_columns(
        pl.when(in_range).then(pl.lit("mark")).otherwise("kind").alias("kind"),
        pl.when(in_range).then(pl.lit(range_))
        .when((pl.col("kind") == "runtime") & (pl.col("dur_ns") > cell_ns)).then(pl.lit(long_call))
        .otherwise("name").alias("name"),
    )  # fmt: skip
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": host_op})
    sums = made.parts.group_by("leaf").agg(pl.col("ns").sum())
    return {LEAVES[leaf].value: ns / cell_ns for leaf, ns in sums.iter_rows()}


def test_a_device_that_is_silent_while_the_host_is_in_a_copying_call_waits_for_that_call() -> None:
    text = """
        rank0.step     [##################]
        rank0.call     AB....CCCCCCCCCCC...
        rank0.compute  .AA...............BB
    """
    found = renamed(text, cell_ns=20_000, long_call="cudaMemcpyAsync (to pageable memory)")
    assert found == {"dispatch": 1, "other_compute": 4, "silent": 4, "blocking_copy": 11}
    # A call that copies nothing holds nothing.
    assert renamed(text, cell_ns=20_000) == {"dispatch": 1, "other_compute": 4, "silent": 15}


def test_a_device_that_begins_late_while_its_host_waits_for_it_is_silent_and_not_dispatched_slowly() -> None:
    text = """
        rank0.step     [####################]
        rank0.call     A.B.WWWWW.C.WWWWW...
        rank0.compute  .A......B........C..
    """
    found = renamed(text, cell_ns=40_000, long_call="cudaStreamSynchronize")
    assert found == {"other_compute": 3, "dispatch": 3, "silent": 11, "synchronisation": 1}
    # However long each launch of a capture takes: a latency of 240 us is none of the launch.
    assert renamed(text.replace("W", "."), cell_ns=40_000) == {"other_compute": 3, "dispatch": 4, "silent": 11}


def test_without_a_device_a_collective_lasts_as_long_as_its_frame_whatever_waits_in_it() -> None:
    text = """
        rank0.step     [##########]
        rank0.python   ..PPPPPPPP..
    """
    tables = draw(text, scale_ns=10_000)
    frame = tables["host_op"].filter(pl.col("kind") == "python").with_columns(
        pl.lit("torch/distributed/distributed_c10d.py(3155): all_reduce").alias("name")
    )  # fmt: skip
    waits = frame.with_columns(
        pl.lit("<built-in method wait of Work object>").alias("name"),
        pl.col("start_ns") + 10_000, pl.col("dur_ns") - 20_000,
    )  # fmt: skip
    marks = tables["host_op"].filter(pl.col("kind") != "python")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": pl.concat([marks, frame, waits])})
    sums = made.parts.group_by("leaf").agg(pl.col("ns").sum())
    assert {LEAVES[leaf].value: ns // 10_000 for leaf, ns in sums.iter_rows()}["communication"] == 8


def test_of_a_function_that_hermes_wraps_only_the_wrappers_own_time_is_hermes() -> None:
    # `Tensor.backward`, as a job without a device records it under `hermes run` from a checkout.
    tables = draw("""
        rank0.step     [########]
        rank0.python   PPPPPPPP..
        rank0.host     ..SSSS....
    """, scale_ns=100_000)  # fmt: skip
    named = {"python": "/home/me/src/hermes/inside/error_guard.py(72): called", "op": "aten::mm"}
    names = pl.col("kind").replace_strict(named, default=pl.col("name")).alias("name")
    frames = tables["host_op"].with_columns(names)
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": frames})
    sums = made.parts.group_by("leaf").agg(pl.col("ns").sum())
    found = {LEAVES[leaf]: ns // 100_000 for leaf, ns in sums.iter_rows()}
    assert (found[Leaf.PROFILER], found[Leaf.MATRIX_PRODUCT]) == (4, 4)


def test_a_mark_that_outlasts_the_function_in_which_it_begins_takes_nothing_from_the_function() -> None:
    # A generator makes each step: it is resumed inside one mark, and again inside the next.
    tables = draw("""
        rank0.step     .[##################]
        rank0.python   PPPPPPPPPP...........
        rank0.host     ...AAAAAA............
    """, scale_ns=100_000)  # fmt: skip
    names = pl.col("kind").replace_strict({"python": "train.py(7): steps"}, default=pl.col("name")).alias("name")
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": tables["host_op"].with_columns(names)})
    by_place = {place: ns // 100_000 for place, ns in made.parts.group_by("place").agg(pl.col("ns").sum()).iter_rows()}
    assert by_place["train.py:7 `steps`"] == 9


def test_the_first_launch_of_a_kernel_that_loads_its_code_is_a_first_call() -> None:
    text = """
        rank0.step     [##################################]
        rank0.call     A.BBBBBBBBBBBBBBBBBBBBBBBB.C.D.E....
        rank0.compute  .A........................B.C.D.EEEE
    """
    assert renamed(text, cell_ns=50_000)["first_call"] == 24
    # Too short to load anything, or no longer than 20 times the other launches.
    assert "first_call" not in renamed(text, cell_ns=5_000)
    assert "first_call" not in renamed(text.replace("BBBBBBBBBBBBBBBBBBBB.", "................BBBB."), cell_ns=300_000)


def test_an_operator_that_is_long_at_its_first_call_only_sets_something_up() -> None:
    text = """
        rank0.step     [###############################################]
        rank0.host     AAAAAAAAAAAAAAAAAAAAAAAAA.A.A.A..................
    """
    assert cells(text, cell_ns=100_000)["first_call"] == 25
    # A later call takes half as long: another program held the core.
    assert "first_call" not in cells(text.replace("A.A.A.............", "A.A.AAAAAAAAAAAAAA"), cell_ns=100_000)
    # The job had made steps before the capture, so that each operator had been called before.
    tables = draw(text, scale_ns=100_000)
    made = tree(**{name: tables[name] for name in TABLES}, begun=True)
    assert LEAVES.index(Leaf.FIRST_CALL) not in made.parts["leaf"]


@pytest.mark.parametrize(
    ("calls", "tasks", "leaf"),
    [("AAAA...........", "....AAAAAAAAAAA", "first_call"), ("AAAA.BBBB.CCCC.", "....A....B....C", "long_launch")],
)
def test_a_long_call_of_the_runtime_sets_something_up_unless_it_always_takes_so_long(
    calls: str, tasks: str, leaf: str
) -> None:
    found = renamed(f"""
        rank0.step     [#############]
        rank0.call     {calls}
        rank0.compute  {tasks}
    """, cell_ns=5_000_000, long_call="ModelExecute")  # fmt: skip
    assert found[leaf] == len(calls.replace(".", ""))


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        ("_compile.compile_inner (dynamo_timed)", "compiling"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input_here"),
        ("# my range", "not_recorded"),
    ],
)
def test_a_range_is_a_call_only_where_its_name_says_what_runs_in_it(name: str, leaf: str) -> None:
    text = """
        rank0.step     [##################]
        rank0.host     RRRRRRRRRRRRRR......
        rank0.call     ..............A.....
        rank0.compute  ...............AAAAA
    """
    found = renamed(text, cell_ns=10_000, range_=name)
    assert found == {leaf: 14, "dispatch": 1, "other_compute": 5}


# Places ---------------------------------------------------------------------------------------------------------------


def test_what_autograd_does_for_a_line_belongs_to_the_line() -> None:
    tables = draw("""
        rank0.step      [##################]
        rank0.python    PPPPPP..............
        rank0.host      .FFFF...............
        rank0.host@7    .......BBBB.........
        rank0.call@7    ..........B.........
        rank0.compute   ...........BBBBBBBBB
    """)
    forward = pl.col("name") == "F"
    backward = pl.col("name") == "B"
    numbered = tables["host_op"].with_columns(
        pl.when(forward | backward).then(5).alias("sequence"), pl.when(backward).then(1).alias("forward_tid"),
        pl.col("name").replace("P", "train.py(24): forward"),
    )  # fmt: skip
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": numbered})
    computed = made.parts.filter(pl.col("leaf") == LEAVES.index(Leaf.OTHER_COMPUTE))
    assert computed["place"].to_list() == ["train.py:24 `forward`"]
    # Two threads count for themselves: then the number tells nothing.
    both = pl.concat([numbered, numbered.filter(forward).with_columns(pl.lit(9, dtype=pl.Int64).alias("tid"))])
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": both})
    computed = made.parts.filter(pl.col("leaf") == LEAVES.index(Leaf.OTHER_COMPUTE))
    assert computed["place"].to_list() == ["B"]


def test_the_stack_of_an_operator_tells_its_line_where_no_frames_were_recorded() -> None:
    tables = draw("""
        rank0.step      [########]
        rank0.host      AAAA......
        rank0.call      ...A......
        rank0.compute   ....AAAAAA
    """)
    stack = pl.DataFrame(
        {"rank": [0], "stack_id": [3], "frames": ["torch/nn/modules/linear.py(8): forward\ntrain.py(7): f"]}
    )
    with_stack = tables["host_op"].with_columns(pl.when(pl.col("name") == "A").then(3).alias("stack_id"))
    made = tree(**{name: tables[name] for name in TABLES} | {"host_op": with_stack, "stack": stack})
    assert made.parts["place"].unique().to_list() == ["train.py:7 `f`"]


# Laws -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_calls_that_overlap_in_any_way_become_a_tree_whose_innermost_call_is_known(seed: int) -> None:
    dice = random.Random(seed)
    pairs = sorted(
        ((begin := dice.randint(0, 40), begin + dice.randint(1, 20)) for _ in range(dice.randint(1, 30))),
        key=lambda one: (one[0], -one[1]),
    )
    start, end = (np.array([one[side] for one in pairs], dtype=np.int64) for side in (0, 1))
    end, parent, depth = nesting.nest_sorted_calls(start, end)
    inner = parent >= 0
    # Only a call that begins with another one may be left without any time.
    assert set(start[end == start].tolist()) <= set(start[end > start].tolist())
    assert (start[parent[inner]] <= start[inner]).all()
    assert (end[inner] <= end[parent[inner]]).all()
    starts, ends, who = nesting.innermost(start, end, parent, depth)
    for moment in range(61):
        open_ = [place for place in range(len(start)) if start[place] <= moment < end[place]]
        wanted = max(open_, key=lambda place: (depth[place], place), default=-1)
        at = int(np.searchsorted(starts, moment, side="right")) - 1
        assert (who[at] if at >= 0 and moment < ends[at] else -1) == wanted


def test_calls_behind_one_that_was_cut_are_not_cut_with_it() -> None:
    # Each frame ends a moment behind the one around it, deeper than calls are cut around: as where a profiler stops.
    start = np.array([*range(12), 200, 300], dtype=np.int64)
    end = np.array([*range(100, 112), 250, 400], dtype=np.int64)
    start[0], end[0] = 0, 1_000
    end[1:12] = np.arange(90, 101)
    ends, parent, _ = nesting.nest_sorted_calls(start, end)
    assert (ends > start).all()
    assert ends[12:].tolist() == [250, 400]
    assert parent[12:].tolist() == [0, 0]


def test_an_operator_begins_with_the_call_of_the_runtime_that_it_makes() -> None:
    start = np.array([0, 2, 20, 39], dtype=np.int64)
    end = np.array([10, 15, 40, 60], dtype=np.int64)
    runtime = np.array([True, False, True, False])
    # More of the first call lies in its operator than before it; the second ends late, behind what it is part of.
    assert nesting.begun_with(start, end, runtime).tolist() == [0, 0, 20, 39]


def test_memory_taken_by_an_operator_that_is_stamped_later_is_of_the_allocator() -> None:
    text = """
        rank0.step     [##################]
        rank0.call     .MMMMMMMMMMMM..A....
        rank0.host     ..SSSSSSSSSSSSSSS...
        rank0.compute  ................AAAA
    """
    found = renamed(text, cell_ns=40_000, long_call="cudaMalloc")
    assert found["allocator"] == 12


def test_a_mark_that_begins_in_frames_which_end_a_moment_later_keeps_its_length() -> None:
    # As torch.profiler records it: ProfilerStep begins in its own frames, and the next frames end behind it.
    start = np.array([*range(10), 50, 9_990], dtype=np.int64)
    end = np.array([*(100 - at for at in range(10)), 10_000, 14_000], dtype=np.int64)
    ends, parent, _ = nesting.nest_sorted_calls(start, end)
    assert ends.tolist() == [*[50] * 10, 9_990, 14_000]
    assert parent[10:].tolist() == [-1, -1]


@pytest.mark.parametrize("seed", range(40))
def test_what_lies_in_others_and_what_is_left_are_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    points = sorted(dice.sample(range(60), 2 * dice.randint(0, 6)))
    others = np.array(points, dtype=np.int64).reshape(-1, 2).T
    pairs = [(begin := dice.randint(0, 50), begin + dice.randint(1, 15)) for _ in range(dice.randint(0, 6))]
    start, end = (np.array([one[side] for one in pairs], dtype=np.int64) for side in (0, 1))
    inside, _ = found_in(start, end, *others)
    left = stretches_outside(start, end, *others)
    held = {moment for low, high in others.T for moment in range(low, high)}
    for place, (low, high) in enumerate(pairs):
        for pieces, wanted in ((inside, held), (left, set(range(61)) - held)):
            own = [range(*one) for *one, of in zip(pieces.start, pieces.end, pieces.of, strict=True) if of == place]
            assert sorted(moment for one in own for moment in one) == sorted(wanted & set(range(low, high)))
    moments = np.array(sorted(dice.sample(range(60), 5)), dtype=np.int64)
    cut = cut_at(start, end, moments)
    assert cut.lengths.sum() == (end - start).sum()
    assert not any(((moments > low) & (moments < high)).any() for low, high in zip(cut.start, cut.end, strict=True))


REAL = [
    *(f"ascend/{name}" for name in ("alexnet_db_level0", "alexnet_text_level2", "writer_2024")),
    *(
        f"kineto/{name}.json.gz"
        for name in (
            "a100_alexnet_cuda_sync", "a100_dlrm_control", "a100_rank0_of_16_blocking_copies", "b200_vllm_inference",
            "cpu_only_rank34", "event_sync_multi_stream", "h100_owlv2_pipeline", "h800_deepseek_train",
            "mi250_toy_empty_last_mark", "mi300_sglang_decode", "mtia_single_rank", "v100_dlrm_test",
            "v100_resnet50_num_workers_0",
        )
    ),
    *(
        f"hunt/{name}"
        for name in (
            "a1_rawprof", "a3_kernels_small", "b1_prodigy_item", "b3_rocm_overflow", "b4_kineto_ts0", "b8_vllm_bubble",
            "r12_cpu_laptop", "r14_cuda_guide_cpu_only", "r2_torchrec_sleep_rank2", "r4_torchrec_alloc_retry",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_leaves_of_real_profiles_add_up_to_all_steps_to_the_nanosecond(
    name: str, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not (shared / name).exists():
        pytest.skip(f"no profile {name}")
    for data in load([shared / name], Cache(tmp_path_factory.mktemp("cache"))).ranks[:2]:
        rank = RankTables(data)
        tables = {table: rank.table(table) for table in TABLES}
        made = tree(**tables)
        steps = made.parts.with_columns(step=pl.Series(made.spells.step)[made.parts["spell"]]).group_by("step")
        lengths, places = made.windows.lengths, steps.agg(pl.col("ns").sum()).sort("step")
        assert places["ns"].to_list() == lengths[places["step"].to_numpy()].tolist()
        assert places["ns"].sum() == lengths.sum()
        assert (made.windows.start[1:] == made.windows.end[:-1]).all() or not tables["kernel"].height
        rows = leaves(rank, NO_WAITS).rows
        assert sum(row.total_ns for row in rows) == lengths.sum()
        assert sum(row.step_ns for row in rows) == lengths[typical(made.windows)]
        _busy_as_counted(made, tables)


def _busy_as_counted(made: RankLeaves, tables: Mapping[str, pl.DataFrame]) -> None:
    """Where the steps hold all of the device's tasks, its parts are those of the whole capture."""
    total = rank_total(tables["kernel"], tables["comm_op"])
    begin, stop = int(made.windows.start[0]), int(made.windows.end[-1])
    ends = tables["kernel"].select((pl.col("start_ns") + pl.col("dur_ns")).max())["start_ns"]
    if total is None or tables["kernel"]["start_ns"].min() < begin or ends[0] > stop:  # type: ignore[operator]
        return
    parts = made.parts.with_columns(pl.Series("part", [LEAVES[leaf].part for leaf in made.parts["leaf"]]))
    sums = dict(parts.group_by("part").agg(pl.col("ns").sum()).iter_rows())
    if sums.get("compute", 0) != total.compute_ns:
        # Only tasks that outlast the next one of their stream are cut.
        assert sums["compute"] < total.compute_ns


@pytest.mark.parametrize(
    ("name", "leaf", "what", "share"),
    [
        ("r1_torchrec_resnet18", "host_operator", "aten::split_with_sizes", 0.53),
        ("r12_cpu_laptop", "matrix_product", "aten::mm", 0.44),
        ("r14_cuda_guide_cpu_only", "random", "aten::uniform_", 0.50),
        ("b4_jit_compile", "compiling", "aclopCompileAndExecuteV2", 0.97),
        ("b8_vllm_bubble", "not_recorded", "cudaGraphLaunch", 0.41),
        ("r4_torchrec_alloc_retry", "allocator", "cudaFree", 0.18),
    ],
)  # fmt: skip
def test_what_an_expert_said_of_cases_from_the_wild_is_a_leaf(
    name: str, leaf: str, what: str, share: float, shared: Path, tmp_path: Path
) -> None:
    data = load([shared / "hunt" / name], Cache(tmp_path)).ranks[0]
    rows = leaves(RankTables(data), NO_WAITS).rows
    whole = sum(row.total_ns for row in rows)
    mine = sum(row.total_ns for row in rows if row.leaf == leaf and row.what == what)
    assert mine / whole == pytest.approx(share, abs=0.015)


def test_of_many_ranks_each_keeps_its_leaves_and_64_their_places() -> None:
    def rank(number: int) -> tuple[LeafTime, ...]:
        return tuple(
            LeafTime(rank=number, leaf=leaf, how=How.CALL, what=what, place="", awaited=None, total_ns=number + 1,
                     step_ns=1, long_ns=0)
            for leaf in (Leaf.PYTHON, Leaf.DISPATCH) for what in ("a", "b")
        )  # fmt: skip

    rows = list(job_leaves([rank(number) for number in range(200)]))
    assert sum(row.total_ns for row in rows) == sum(4 * (number + 1) for number in range(200))
    whole = [number for number in range(200) if sum(row.rank == number for row in rows) == 4]
    assert (len(whole), whole[0], whole[-1]) == (64, 0, 199)
    assert {(row.leaf, row.step_ns) for row in rows if row.rank == 1} == {(Leaf.PYTHON, 2), (Leaf.DISPATCH, 2)}


def test_a_rank_whose_leaves_are_summed_still_tells_reads_from_other_waits() -> None:
    def rank(number: int) -> list[LeafTime]:
        return [
            LeafTime(
                rank=number, leaf=Leaf.SYNCHRONISATION, how=how, what=what, place=place, awaited=None, total_ns=number,
                step_ns=1, long_ns=0,
            )
            for how, what in ((How.CALL, "aten::item"), (How.LOST_LEAD, "aten::item"), (How.CALL, "synchronize"))
            for place in ("a.py:1", "b.py:2")
        ]  # fmt: skip

    rows = list(job_leaves([rank(number) for number in range(1, 201)]))
    assert {(row.what, row.total_ns) for row in rows if row.rank == 2} == {("aten::item", 8), ("synchronize", 4)}


def test_a_rank_that_waits_for_hundreds_names_those_that_it_waits_for_longest() -> None:
    count = 50
    tables = draw("\n".join(f"rank0.comm  {'.' * at * 2}##" for at in range(count)))
    waits = pl.DataFrame({"comm_id": range(count), "split": [True] * count, "last": range(100, 100 + count),
                          "wait_ns": [1_000 + at for at in range(count)]})  # fmt: skip
    rows = leaves(_Rank(tables), waits).rows  # type: ignore[arg-type]
    named = {row.awaited for row in rows if row.leaf is Leaf.WAIT}
    assert named == {None, *range(118, 150)}
    assert sum(row.total_ns for row in rows if row.leaf is Leaf.WAIT) == sum(1_000 + at for at in range(count))


class _Rank:
    """The tables of a drawing as those of rank 0."""

    def __init__(self, tables: Mapping[str, pl.DataFrame]) -> None:
        self.rank, self._tables = 0, tables

    @property
    def data(self) -> _Rank:
        return self

    def table(self, name: str, *_columns: str) -> pl.DataFrame:
        return self._tables.get(name, pl.DataFrame())
