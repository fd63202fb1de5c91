"""What takes the host over a capture, shapes, load of cores, and settings of several ranks."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.host_measures import HostEvents, RankSettings
from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.host import host_events
from hermes.profiles.measure.host.numeric_checks import numeric_check_calls
from hermes.profiles.measure.host.settings import settings, settings_in
from hermes.profiles.measure.steps.breakdown import device_busy, step_splits
from hermes_testing import draw

NAMES = {
    "C": "aclopCompileAndExecute",
    "O": "opCompile",
    "T": "Torch-Compiled Region: 0/0",
    "M": "aclMallocMemInner",
    "L": "tqdm/_monitor.py(60): run",
    "R": "torch/serialization.py(1315): load",
    "S": "torch/serialization.py(944): save",
    "D": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "A": "torch/distributed/c10d_logger.py(79): wrapper",
    "B": "c10d::allreduce_",
}
SETTING = empty(TABLES["setting"])


def events(text: str, setting: pl.DataFrame = SETTING) -> dict[str, HostEvents]:
    tables = draw(text)
    host = tables["host_op"].with_columns(pl.col("name").replace(NAMES))
    splits = step_splits(tables["step"], tables["kernel"], tables["comm_op"])
    busy = device_busy(tables["kernel"], tables["comm_op"])
    loop = pl.DataFrame({"pid": [1], "tid": [100]})
    notable = host_events.notable_calls(host)
    checked = numeric_check_calls(host)
    rows = host_events.host_events(
        splits, tables["step"], notable, tables["gc"], setting, busy, loop, checked, 0, every=host
    )
    return {row.what: row for row in rows}


def test_calls_inside_others_of_their_kind_count_once_and_running_compiled_code_is_no_compilation() -> None:
    found = events("""
        rank0.step     [####][####]
        rank0.host     CCCC..TTTT..
        rank0.host@7   .OO.........
        rank0.call@100 .O..........
        rank0.compute  ..AA..BBBB..
    """)["compilation"]
    assert (found.calls, found.ns, found.longest_ns, found.device_free_ns) == (2, 4_000, 4_000, 2_000)
    assert (found.steps, found.steps_hit) == (2, 1)
    assert found.names == (("aclopCompileAndExecute", 1, 4_000), ("opCompile", 1, 2_000))


def test_a_call_that_outlasts_the_last_step_counts_as_long_as_that_lasts() -> None:
    found = events("""
        rank0.step     .[####].....
        rank0.host     CCC..CCCC.CC
        rank0.compute  ...AA.......
    """)["compilation"]
    assert (found.calls, found.ns, found.longest_ns, found.longest_at_ns) == (2, 4_000, 2_000, 1_000)
    assert found.names == (("aclopCompileAndExecute", 2, 4_000),)


def test_a_thread_of_a_progress_bar_that_waits_all_the_time_is_no_logging() -> None:
    rows = events("""
        rank0.step     [####]
        rank0.python@7 LLLLLL
        rank0.compute  .AA...
    """)
    assert (rows["checkpoint or logging"].calls, rows["checkpoint or logging"].ns) == (0, 0)


def test_files_that_are_read_again_count_as_loading_too_and_samples_of_a_dataset_as_neither() -> None:
    rows = events("""
        rank0.step     [########]
        rank0.python   .SS.RRR...
        rank0.compute  .........A
    """)
    assert (rows["checkpoint or logging"].ns, rows["loading of files"].ns) == (5_000, 3_000)
    assert (rows["loading of files"].calls, rows["loading of files"].steps_hit) == (1, 1)
    rows = events("""
        rank0.step      [########]
        rank0.host      .DDDDD....
        rank0.call@100  ..RRR.....
        rank0.compute   .........A
    """)
    assert (rows["checkpoint or logging"].ns, rows["loading of files"].ns) == (0, 0)


def test_calls_within_collectives_are_counted_on_the_thread_of_the_loop() -> None:
    found = events("""
        rank0.step      [########]
        rank0.host      ..B.......
        rank0.python    .AAAA.AA..
        rank0.host@7    ..BB......
        rank0.compute   .........A
    """)["calls of collectives"]
    # The two, and an operator in one of them; none of another thread. A frame counts in part.
    assert (found.calls, found.recorded) == (2, pytest.approx(1 + 2 * host_events.FRAME))


def test_collections_that_nobody_recorded_are_not_measured() -> None:
    text = """
        rank0.step     [####]
        rank0.compute  .AA...
    """
    found = events(text)["garbage collection"]
    assert (found.calls, found.ns, found.steps_hit) == (None, None, None)
    asked = SETTING.vstack(
        pl.DataFrame(
            {"rank": [0], "source": ["profiler"], "name": ["_gc_detect_threshold"], "value": ["1"]},
            schema=SETTING.schema,
        )
    )
    assert events(text, asked)["garbage collection"].calls == 0


def test_collections_are_counted_with_the_free_time_of_the_device() -> None:
    found = events("""
        rank0.step     [####][####]
        rank0.gc       .GG.....G...
        rank0.compute  ..A.....A...
    """)["garbage collection"]
    assert (found.calls, found.ns, found.longest_ns, found.device_free_ns, found.steps_hit) == (
        2,
        3_000,
        2_000,
        1_000,
        2,
    )


def test_a_recurrent_layer_is_itself_and_the_backward_of_what_ran_in_it() -> None:
    rows = [
        ("aten::gru", 0, 100, None, None),
        ("aten::tanh", 10, 5, 7, None),
        ("aten::relu", 120, 5, 8, None),
        ("TanhBackward0", 200, 30, 7, 1),
        ("ReluBackward0", 240, 30, 8, 1),
    ]
    schema = ("name", "start_ns", "dur_ns", "sequence", "forward_tid")
    calls = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pid=pl.lit(1), tid=pl.lit(9))
    found = host_events.recurrent(calls.filter(pl.col("name") == "aten::gru"), calls.filter(pl.col("sequence") >= 0))
    assert found.select("name", "dur_ns").rows() == [("aten::gru", 100), ("TanhBackward0", 30)]


def test_lists_belong_to_the_tensor_that_is_made_of_them() -> None:
    tensor, comprehension = "<built-in method tensor of type object at 0x7f>", "train.py(9): <listcomp>"
    rows = [
        # The list, and the rows in it; the tensor that it becomes.
        ("python", comprehension, 0, 500_000),
        ("python", comprehension, 10_000, 200_000),
        ("python", comprehension, 300_000, 199_000),
        ("python", tensor, 510_000, 90_000),
        # One that calls operators, another that is for something else, and one of another thread.
        ("python", comprehension, 1_000_000, 50_000),
        ("op", "aten::sum", 1_010_000, 9_000),
        ("python", tensor, 1_060_000, 9_000),
        ("python", "train.py(20): <genexpr>", 2_000_000, 50_000),
    ]
    schema = ("kind", "name", "start_ns", "dur_ns")
    calls = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pid=pl.lit(1), tid=pl.lit(9))
    loop = calls.select("pid", "tid").unique()
    other = calls.with_columns(tid=pl.lit(10))
    found = host_events.made_into_tensors(pl.concat([calls, other]), calls, loop)
    assert found.select("start_ns", "dur_ns", "tid").rows() == [(0, 500_000, 9), (300_000, 199_000, 9)]
    assert not host_events.made_into_tensors(calls.head(3), calls.clear(), loop).height


def told(**means: object) -> pl.DataFrame:
    rows = {"rank": 0, "source": "before the capture"}
    return pl.DataFrame([rows | {"name": name, "value": value} for name, value in means.items()], schema=SETTING.schema)


def test_what_the_monitor_counted_before_a_capture_is_told_and_is_no_setting() -> None:
    found = host_events.steps_before_capture(3, told(steps="90", step_ns="12000", gc_ns="40", later="7"), 55)
    assert found is not None
    assert (found.rank, found.steps, found.step_ns, found.gc_ns, found.calls) == (3, 90, 12_000, 40, 55)
    assert (found.minor_faults, found.fault_ns, found.spread_ns) == (None, None, None)
    assert settings_in(0, told(steps="90", step_ns="12000")) == RankSettings(rank=0, values=())


@pytest.mark.parametrize(
    # Faults in a captured step and its length; steps before take 25 us with ten faults of at least 0.7 us.
    ("captured_faults", "captured_ns", "fault_ns"),
    [
        (0, 10_000, 1_500),  # 15 us less, and 7 of them by the cost that was measured
        (4, 13_000, 2_000),
        (0, 3_000, 700),  # 22 us less: most of it has another reason
        (0, 30_000, 700),
        (10, 10_000, 700),
        (0, 0, 700),
    ],
)
def test_steps_that_are_shorter_without_page_faults_tell_what_these_cost(
    captured_faults: int, captured_ns: int, fault_ns: int
) -> None:
    rows = told(
        steps="90", step_ns="25000", minor_faults="10", fault_ns="700", captured_minor_faults=str(captured_faults)
    )
    found = host_events.steps_before_capture(0, rows, 5, captured_ns)
    assert found is not None
    assert found.fault_ns == fault_ns


def test_means_of_no_step_are_none() -> None:
    for odd in (told(), told(steps="0", step_ns="12"), told(steps="5"), told(steps="-5", step_ns="x"), SETTING):
        assert host_events.steps_before_capture(0, odd, 1) is None


def test_shapes_that_no_step_before_had_are_new() -> None:
    kernel = pl.DataFrame(
        {
            "component": ["compute"] * 5,
            "type": ["MatMul", "MatMul", "Add", "MatMul", "Add"],
            "input_shapes": ["2,2", "2,2", "4", "2,3", "4"],
            "op_state": ["static", None, "dynamic", "dynamic", None],
            "step": [1, 2, 2, 2, 3],
        }
    )
    found = host_events.shapes(0, kernel)
    assert found is not None
    assert (found.kernels, found.distinct, found.new, found.known, found.dynamic) == (5, 3, 2, 3, 2)
    single = host_events.shapes(0, kernel.filter(pl.col("step") == 2))
    assert single is not None
    assert single.new is None
    assert host_events.shapes(0, kernel.clear()) is None


def test_the_load_of_cores_is_their_mean_where_it_was_sampled() -> None:
    counter = pl.DataFrame(
        {
            "source": ["CPU Usage"] * 4 + ["HBM"],
            "name": ["CPU 0", "CPU 0", "CPU 1", "CPU 1", "HBM 0"],
            "value": [100.0, 50.0, 25.0, 25.0, 7.0],
        }
    )
    found = host_events.contention(3, counter)
    assert found is not None
    assert (found.cores, found.usage, found.busiest) == (2, 0.5, 0.75)
    assert host_events.contention(3, counter.tail(1)) is None


def setting(*rows: tuple[str, str, str | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"source": pl.String, "name": pl.String, "value": pl.String}, orient="row")


def test_settings_that_differ_come_first_with_the_ranks_that_have_each_value() -> None:
    found = settings(
        [
            settings_in(
                0, setting(("environment", "OMP_NUM_THREADS", "1"), ("job", "rank", "0"), ("version", "cann", "8.0"))
            ),
            settings_in(
                1, setting(("environment", "OMP_NUM_THREADS", "1"), ("job", "rank", "1"), ("version", "cann", "8.0"))
            ),
            settings_in(
                2, setting(("environment", "OMP_NUM_THREADS", None), ("job", "rank", "2"), ("version", "cann", "8.0"))
            ),
            settings_in(3, setting(("version", "cann", "8.0"))),
        ]
    )
    assert [(row.name, row.differs) for row in found] == [("OMP_NUM_THREADS", True), ("cann", False)]
    assert found[0].values == (("1", (0, 1)), (None, (2,)))
    assert (found[0].absent, found[1].absent) == ((3,), ())
