"""What ran at once in a step."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hermes.knowledge.host_work import WORK_WAIT
from hermes.model.overlap_measures import StepOverlap
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes.profiles.measure.steps.overlap import step_overlap
from hermes_testing import draw

FETCH = {"D": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}


def overlap(text: str) -> StepOverlap:
    tables = draw(text)
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    host = tables["host_op"].with_columns(pl.col("name").replace(FETCH))
    return step_overlap(split, tables["kernel"], tables["comm_op"], host, tables["gc"], {"tp": "tensor"})


def states(found: StepOverlap) -> dict[str, int]:
    assert sum(state.ns for state in found.states) == found.window_ns
    return {" + ".join(state.components): state.ns // 1_000 for state in found.states}


def parts(found: StepOverlap) -> dict[str, tuple[int, int, int]]:
    """Busy, exposed and alone by component, in microseconds."""
    return {
        part.label: (part.busy_ns // 1_000, part.exposed_ns // 1_000, part.alone_ns // 1_000) for part in found.parts
    }


def test_every_combination_has_its_own_time_and_each_group_and_direction_is_a_component() -> None:
    found = overlap("""
        rank0.step      [############]
        rank0.host      DDDHHH........
        rank0.compute   ....AAAA......
        rank0.comm:tp   ......BBB.....
        rank0.comm:dp@9 ........CC....
        rank0.copy      ..DD......D...
    """)
    assert states(found) == {
        "data input": 2,
        "copy host to device + data input": 1,
        "copy host to device + host": 1,
        "compute + host": 2,
        "compute + communication tensor": 2,
        "communication dp + communication tensor": 1,
        "communication dp": 1,
        "copy host to device": 1,
    }
    assert parts(found) == {
        "compute": (4, 4, 0),
        "communication dp": (2, 2, 1),
        "communication tensor": (3, 1, 0),
        "copy host to device": (3, 3, 1),
        "data input": (3, 2, 2),
        "host": (3, 0, 0),
    }
    assert found.absent == ()


def test_compute_communication_and_copies_are_those_of_the_split() -> None:
    text = """
        rank0.step     [#########]
        rank0.compute  AAA..BB...
        rank0.comm     .CCCC.....
        rank0.copy     ....EEE.E.
    """
    tables = draw(text)
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    found = overlap(text)
    exposed = {part.component: part.exposed_ns for part in found.parts}
    assert split.window_kind == "device"
    assert exposed == {
        "compute": split.compute_ns,
        "communication": split.exposed_comm_ns,
        "copy": split.copy_exposed_ns,
    }


def test_a_host_that_waits_for_the_device_does_no_work() -> None:
    found = overlap("""
        rank0.step     [########]
        rank0.host     HHHHHH....
        rank0.sync     ..SSSS....
        rank0.compute  ..AAAA....
    """)
    assert states(found) == {"host": 2, "compute": 4}


def test_what_the_window_has_none_of_is_named() -> None:
    found = overlap("""
        rank0.step     [####]
        rank0.compute  .AA...
    """)
    assert found.absent == ("communication", "copy", "data input", "host")
    (compute,) = found.parts
    assert compute.overlap is None


def alone(name: str = "") -> StepOverlap:
    """A step without a device; in its third and fourth microsecond a call of this name is open inside the operator."""
    tables = draw("""
        rank0.step     [######]
        rank0.host     HHHH....
        rank0.comm     ..CCCC..
    """)
    comm = tables["comm_op"].with_columns(pl.lit("gloo").alias("library"), pl.lit(None, dtype=pl.String).alias("group"))
    split = step_splits(tables["step"], tables["kernel"].clear(), comm)[0]
    host = tables["host_op"]
    inner = host.filter(pl.col("kind") == "op").head(1)
    for one in ("c10d::allreduce_", name) if name else ():
        row = inner.with_columns(
            pl.lit("python").alias("kind"), pl.lit(one).alias("name"), pl.col("start_ns") + 2_000,
            pl.lit(2_000).cast(pl.Int64).alias("dur_ns"),
        )  # fmt: skip
        host = pl.concat([host, row])
    return step_overlap(split, tables["kernel"].clear(), comm, host, tables["gc"], {})


def test_on_a_machine_without_accelerator_the_operators_hide_communication() -> None:
    assert parts(alone()) == {"communication group not recorded": (4, 2, 2), "host": (4, 4, 2)}


def test_a_wait_for_other_ranks_hides_no_communication_there() -> None:
    found = parts(alone(f"{WORK_WAIT}_builtins.record object at 0x7f>"))
    assert found == {"communication group not recorded": (4, 4, 4), "host": (2, 2, 2)}


ROWS = st.text("A.B", min_size=12, max_size=12)


@given(ROWS, ROWS, ROWS, ROWS)
def test_the_combinations_of_any_step_add_up_to_its_window(compute: str, comm: str, other: str, host: str) -> None:
    found = overlap(f"""
        rank0.step     [##########]
        rank0.compute  {compute}
        rank0.comm:tp  {comm}
        rank0.comm:dp@7 {other}
        rank0.host     {host}
    """)
    assert sum(state.ns for state in found.states) == found.window_ns
    for part in found.parts:
        assert part.busy_ns == sum(state.ns for state in found.states if part.label in state.components)
        assert part.alone_ns <= part.exposed_ns <= part.busy_ns
