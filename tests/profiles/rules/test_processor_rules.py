"""Rules that find what a job computes, checks or sends for nothing; most are of jobs that compute on the processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.given import Given
from tests.profiles.rules.rows import computing, fit, group_op, only, operator, silent, step_compute

from hermes.model.comm_measures import Communication, GroupOp
from hermes.model.compute_measures import NO_COMPUTE, Compute
from hermes.model.fault import Fault
from hermes.model.host_measures import Before, HostSide, SettingValues
from hermes.model.measures import StepSplit
from hermes.model.overlap_measures import OverlapPart, StepOverlap
from hermes.model.tensor_measures import DenseTable, Padding
from hermes.profiles.measure.host.threads import ThreadRuns
from hermes.profiles.rules.communication import com004_small_collectives as com004
from hermes.profiles.rules.communication import com010_reduction_per_micro_batch as com010
from hermes.profiles.rules.compute import cmp002_unfused as cmp002
from hermes.profiles.rules.compute import cmp009_wide_floats as cmp009
from hermes.profiles.rules.compute import cmp013_decomposed_layer as cmp013
from hermes.profiles.rules.compute import cmp014_padding as cmp014
from hermes.profiles.rules.compute import cmp015_gather_scatter as cmp015
from hermes.profiles.rules.compute import cmp016_dense_embedding_gradient as cmp016
from hermes.profiles.rules.compute import cmp032_long_floats_of_a_processor as cmp032
from hermes.profiles.rules.compute import cmp033_decoded_anew as cmp033
from hermes.profiles.rules.compute import cmp034_costly_form as cmp034
from hermes.profiles.rules.environment import env004_anomaly_checks as env004
from hermes.profiles.rules.evidence_messages import before
from hermes.profiles.rules.host import cpu006_garbage_collection as cpu006
from hermes.profiles.rules.host import cpu009_small_operators as cpu009
from hermes.profiles.rules.host import cpu010_too_many_threads as cpu010
from hermes.profiles.rules.host import cpu011_too_few_threads as cpu011
from hermes.profiles.rules.host import cpu015_thread_beside as cpu015
from hermes.profiles.rules.input import io001_no_workers as io001
from hermes.profiles.rules.input import io002_slow_workers as io002
from hermes.profiles.rules.input import io003_workers_anew as io003
from hermes.profiles.rules.input import io006_saving_blocks as io006
from hermes.profiles.rules.input import io007_lists_to_tensors as io007
from hermes.profiles.rules.memory import mem006_fresh_pages as mem006

Make = Callable[..., Any]
PLAIN = {"chip": None, "dtypes": "float;float", "precision": "fp32"}


@pytest.fixture
def judged(measures: Make) -> Make:
    """Measures with operators and collectives, too."""

    def make(
        splits: Sequence[StepSplit], compute: Compute = NO_COMPUTE, groups: Sequence[GroupOp] = (), **more: Any
    ) -> Given:
        made = measures(splits, **more)
        return replace(made, compute=compute, communication=Communication(groups=tuple(groups)))

    return make


def set_to(**values: str) -> tuple[SettingValues, ...]:
    return tuple(
        SettingValues(source="environment", name=name.replace("__", "."), values=((value, (0,)),), absent=())
        for name, value in values.items()
    )


# Checks of numbers and conversions ----------------------------------------------------------------------------------


def test_checks_of_numbers_cost_their_own_time_where_there_is_no_device(judged: Make, blind: Make, event: Make) -> None:
    row = event("checks of numbers", 400, names=(("train.py(9): check", 3, 400),))
    finding = only(env004.anomaly_checks, judged([blind()], host=HostSide(events=(row,))))
    assert (finding.cost_ns, finding.gain.expected_ns, finding.fault) == (400, 400, "checks_of_numbers")
    assert [action.title for action in finding.actions] == ["Check numbers rarely"]


def test_tracebacks_under_operators_are_anomaly_detection(judged: Make, blind: Make, event: Make) -> None:
    row = event("checks of numbers", 400, names=(("torch/fx/traceback.py(1): format_stack", 3, 400),))
    finding = only(env004.anomaly_checks, judged([blind()], host=HostSide(events=(row,))))
    assert finding.message.startswith("Anomaly detection takes 40%")


def test_one_check_a_step_that_takes_three_percent_is_no_finding(judged: Make, blind: Make, event: Make) -> None:
    assert silent(env004.anomaly_checks, judged([blind()], host=HostSide(events=(event("checks of numbers", 30),))))


def test_lists_count_with_what_it_takes_to_unpickle_them(judged: Make, blind: Make, event: Make) -> None:
    rows = (event("conversion of lists", 300), event("unpickling", 200))
    finding = only(io007.lists_to_tensors, judged([blind()], host=HostSide(events=rows)))
    assert finding.cost_ns == 500


def test_unpickling_alone_is_no_list(judged: Make, blind: Make, event: Make) -> None:
    rows = (event("conversion of lists", 50), event("unpickling", 600))
    assert silent(io007.lists_to_tensors, judged([blind()], host=HostSide(events=rows)))


# Padding ------------------------------------------------------------------------------------------------------------


def padded(judged: Make, blind: Make, before: float) -> Given:
    rows = computing(operator("aten::mm", "matmul", 800, **PLAIN), operator("aten::sgd", "optimizer", 200, **PLAIN))
    host = HostSide(padding=(Padding(rank=0, samples=8, before=before, after=100.0),))
    found: Given = judged([blind()], host=host, compute=rows)
    return found


def test_padding_costs_its_part_of_all_compute_but_the_optimizers(judged: Make, blind: Make) -> None:
    finding = only(cmp014.padding, padded(judged, blind, 25.0))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (600, 360, 600)


def test_a_fifth_of_padding_is_no_finding(judged: Make, blind: Make) -> None:
    assert silent(cmp014.padding, padded(judged, blind, 80.0))


# Threads and types --------------------------------------------------------------------------------------------------


def on_threads(judged: Make, blind: Make, threads: str, **more: Any) -> Given:
    row = operator("aten::mm", "matmul", 600_000, **({"median_ns": 20_000} | PLAIN | more))
    host = HostSide(settings=set_to(cpu__cores="4", torch__num_threads=threads))
    found: Given = judged([blind(host=1_000_000)], host=host, compute=computing(row))
    return found


def test_threads_beyond_the_cores_cost_at_most_what_operators_take(judged: Make, blind: Make) -> None:
    finding = only(cpu010.too_many_threads, on_threads(judged, blind, "16"))
    # Sixteen threads on four cores: at least half of it, at most what is beyond a turn of four.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (600_000, 300_000, 450_000)


@pytest.mark.parametrize("threads", ["1", "4", "6", "many"])
def test_as_many_threads_as_cores_are_no_finding(judged: Make, blind: Make, threads: str) -> None:
    assert silent(cpu010.too_many_threads, on_threads(judged, blind, threads))


def test_threads_of_operators_that_are_too_small_for_them_cost_nothing(judged: Make, blind: Make) -> None:
    small = computing(operator("aten::add", "elementwise", 600_000, median_ns=5_000, **PLAIN))
    assert silent(cpu010.too_many_threads, replace(on_threads(judged, blind, "16"), compute=small))


@pytest.mark.parametrize(("short", "won"), [("avx512", 300_000), ("amx", 420_000), ("arm", 300_000), ("none", 0)])
def test_float32_is_slow_on_a_processor_that_is_recorded_to_have_a_shorter_type(
    judged: Make, blind: Make, short: str, won: int
) -> None:
    row = operator("aten::mm", "matmul", 600_000, median_ns=200_000, **PLAIN)
    host = HostSide(settings=set_to(cpu__bf16=short))
    given = judged([blind(host=1_000_000)], host=host, compute=computing(row))
    assert silent(cmp032.long_floats_of_a_processor, given) is not bool(won)
    if won:
        finding = only(cmp032.long_floats_of_a_processor, given)
        # What it wins is known, whether the model bears it is not.
        assert (finding.cost_ns, finding.gain.low_ns, finding.confidence) == (won, won, 0.25)


@pytest.mark.parametrize(
    ("name", "flops", "silently"),
    [("aten::_sparse_mm", None, True), ("aten::addmm", 10**9, True), ("aten::addmm", 10**8, False)],
)
def test_a_sparse_product_wins_nothing_in_a_shorter_type(
    judged: Make, blind: Make, name: str, flops: int | None, silently: bool
) -> None:
    # A thousand operations a nanosecond and core of four are beyond what a dense product can do.
    row = replace(operator(name, "matmul", 600_000, median_ns=200_000, **PLAIN), flops=flops, calls=3)
    host = HostSide(settings=set_to(cpu__bf16="avx512", cpu__cores="4"))
    given = judged([blind(host=1_000_000)], host=host, compute=computing(row))
    assert silent(cmp032.long_floats_of_a_processor, given) is silently


def test_float64_on_a_processor_costs_half_of_all_its_operators(judged: Make, blind: Make) -> None:
    double = PLAIN | {"dtypes": "double;double", "precision": "fp64"}
    rows = computing(
        operator("aten::mm", "matmul", 300_000, **double),
        operator("aten::tanh", "elementwise", 300_000, **double),
        operator("aten::mm", "matmul", 300_000, **PLAIN),
    )
    finding = only(cmp009.wide_floats, judged([blind(host=1_000_000)], compute=rows))
    assert (finding.cost_ns, finding.gain.low_ns, finding.confidence) == (300_000, 300_000, 0.7)
    assert [action.title for action in finding.actions] == ["Compute in float32"]


def test_float64_beside_float32_that_could_be_shorter_is_a_finding_of_its_own(judged: Make, blind: Make) -> None:
    rows = computing(
        operator("aten::mm", "matmul", 400_000, **(PLAIN | {"precision": "fp64"})),
        operator("aten::mm", "matmul", 600_000, median_ns=200_000, **PLAIN),
    )
    host = HostSide(settings=set_to(cpu__bf16="avx512"))
    given = judged([blind(host=1_000_000)], host=host, compute=rows)
    found = only(cmp009.wide_floats, given), only(cmp032.long_floats_of_a_processor, given)
    assert [(one.cost_ns, one.confidence) for one in found] == [(200_000, 0.7), (300_000, 0.25)]


# Sequences that are computed anew ------------------------------------------------------------------------------------


def decoding(judged: Make, blind: Make, lengths: Sequence[int], name: str = "aten::addmm") -> Given:
    rows = [operator(name, "matmul", 40, calls=2, **{**PLAIN, "shapes": f"64;{length},64;64,64"}) for length in lengths]
    found: Given = judged([blind()], compute=computing(*rows))
    return found


def test_a_sequence_that_is_computed_anew_for_each_element_costs_all_but_the_new_ones(
    judged: Make, blind: Make
) -> None:
    found = only(cmp033.decoded_anew, decoding(judged, blind, range(1, 21)))
    # Of 20 products of 40 ns each, what is not the last of 1, 2, ... 20 elements.
    assert found.cost_ns == round(sum(40 * (1 - 1 / length) for length in range(1, 21)))


def test_a_size_that_was_not_recorded_whole_hides_no_sequence(judged: Make, blind: Make) -> None:
    lengths = [length for length in range(6, 121, 6) if length != 60]
    found = only(cmp033.decoded_anew, decoding(judged, blind, lengths))
    assert found.cost_ns == round(sum(40 * (1 - 6 / length) for length in lengths))


@pytest.mark.parametrize(
    ("lengths", "name"),
    [(range(1, 8), "aten::addmm"), ([*range(1, 20), 25], "aten::addmm"), (range(1, 21), "aten::bmm")],
    ids=["few sizes", "sizes that vary", "attention over what is kept"],
)
def test_inputs_of_other_sizes_are_no_sequence_that_grows(
    judged: Make, blind: Make, lengths: Sequence[int], name: str
) -> None:
    assert silent(cmp033.decoded_anew, decoding(judged, blind, lengths, name))


# Chains of elementwise operators ------------------------------------------------------------------------------------


def layers(judged: Make, blind: Make, calls: int) -> Given:
    rows = computing(
        operator("aten::mm", "matmul", 400, calls=10, **PLAIN),
        operator("aten::mul", "elementwise", 600, calls=calls, **PLAIN),
    )
    found: Given = judged([blind()], compute=rows)
    return found


def test_elementwise_calls_in_a_row_are_won_by_half_without_a_device(judged: Make, blind: Make) -> None:
    assert only(cmp002.unfused, layers(judged, blind, 30)).gain.expected_ns == 300


def test_what_a_compiler_gives_on_a_processor_is_a_preview_unless_most_of_the_step_is_such_calls(
    judged: Make, blind: Make
) -> None:
    assert only(cmp002.unfused, layers(judged, blind, 30)).state == "stable"
    half = computing(
        operator("aten::mm", "matmul", 600, calls=10, **PLAIN),
        operator("aten::mul", "elementwise", 400, calls=30, **PLAIN),
    )
    assert only(cmp002.unfused, judged([blind()], compute=half)).state == "preview"


def test_an_activation_for_each_product_has_nothing_to_be_fused_with(judged: Make, blind: Make) -> None:
    assert silent(cmp002.unfused, layers(judged, blind, 29))


def test_attention_counts_what_is_done_to_scores_backward_too(judged: Make, blind: Make) -> None:
    scores = {"shapes": "4,64,64", "calls": 2, **PLAIN}
    rows = computing(
        operator("aten::bmm", "batched matmul", 400, calls=12, **PLAIN),
        operator("aten::_softmax", "softmax", 100, **scores),
        operator("aten::div", "elementwise", 100, **(scores | {"calls": 4})),
        operator("aten::_softmax_backward_data", "softmax", 100, **(scores | {"shapes": "4,64,64;4,64,64"})),
    )
    finding = only(cmp013.decomposed_layer, judged([blind()], compute=rows))
    assert (finding.cost_ns, finding.gain.expected_ns) == (300, 300)


@pytest.mark.parametrize(("calls", "confidence"), [(16, 0.7), (15, 0.4)])
def test_small_operators_that_are_in_no_loop_are_a_small_model(
    judged: Make, blind: Make, host_step: Make, calls: int, confidence: float
) -> None:
    rows = [operator("aten::add", "x", 1_000, calls=calls, median_ns=1_000, shapes=f"{at}", **PLAIN) for at in range(9)]
    host = HostSide(steps=(host_step({"operators": 3_000_000}),))
    finding = only(cpu009.small_operators, judged([blind(host=5_000_000)], host=host, compute=computing(*rows)))
    assert finding.confidence == confidence
    assert any(one.what == "of these in loops" and one.value == (calls == 16) for one in finding.evidence)


def test_elementwise_operators_of_a_recurrent_layer_cannot_be_fused(
    judged: Make, blind: Make, event: Make, host_step: Make
) -> None:
    row = operator("aten::mul", "elementwise", 4_000_000, calls=900, **PLAIN)
    host = HostSide(steps=(host_step({"operators": 10_000_000}),))
    given = judged([blind(host=10_000_000)], host=host, compute=computing(row))
    assert only(cmp002.unfused, given).gain.high_ns == 2_000_000
    half = replace(host, events=(event("recurrent layers", 5_000_000),))
    assert only(cmp002.unfused, replace(given, host=half)).gain.high_ns == 1_000_000
    most = replace(host, events=(event("recurrent layers", 8_000_000),))
    assert silent(cmp002.unfused, replace(given, host=most))


# Rows by index, and fewer threads than cores ------------------------------------------------------------------------


def by_index(judged: Make, blind: Make, *rows: tuple[str, str, int]) -> Given:
    made = [operator(name, kind, ns, **PLAIN) for name, kind, ns in rows]
    found: Given = judged([blind(host=1_000_000)], compute=computing(*made))
    return found


def test_rows_read_and_added_by_index_could_be_a_sparse_product(judged: Make, blind: Make) -> None:
    rows = (
        ("aten::index_select", "indexing", 300_000),
        ("aten::scatter_add_", "indexing", 100_000),
        ("aten::mm", "matmul", 600_000),
    )
    finding = only(cmp015.gather_scatter, by_index(judged, blind, *rows))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (400_000, 0, 320_000)
    assert finding.blames == ("aten::index_select", "aten::scatter_add_")


@pytest.mark.parametrize(
    "adds", ["ScatterAdd", "aten::embedding_dense_backward", "aten::_index_put_impl_", "IndexPutV2"]
)
def test_operators_that_add_rows_are_known_by_their_names(judged: Make, blind: Make, adds: str) -> None:
    assert only(
        cmp015.gather_scatter, by_index(judged, blind, (adds, "embedding", 200_000), ("aten::mm", "matmul", 800_000))
    )


def test_rows_that_are_only_read_or_take_little_are_no_finding(judged: Make, blind: Make) -> None:
    assert silent(cmp015.gather_scatter, by_index(judged, blind, ("aten::index_select", "indexing", 400_000)))
    few = (("aten::index", "indexing", 50_000), ("aten::index_add_", "indexing", 50_000))
    assert silent(cmp015.gather_scatter, by_index(judged, blind, *few))


# Gradients as large as their tables ---------------------------------------------------------------------------------

PEOPLE, THINGS = "160000,32", "40000,32"


def of_tables(judged: Make, blind: Make, *rows: tuple[str, str, str, int], **given: Any) -> Given:
    """A step of a millisecond; `given` are two tables by their rows, and the indices of a lookup."""
    made = [operator(name, kind, ns, **PLAIN, shapes=shapes) for name, kind, shapes, ns in rows]
    used = given.pop("used", 500.0)
    tables = tuple(DenseTable(rank=0, rows=n, width=32, used=used) for n in given.pop("tables", (160_000, 40_000)))
    splits = [blind(step=step, host=1_000_000) for step in range(given.pop("steps", 1))]
    found: Given = judged(splits, compute=computing(*made), host=HostSide(tables=tables))
    return found


DENSE = (
    ("aten::fill_", "elementwise", f"{PEOPLE};", 100_000),
    ("aten::add_", "elementwise", f"{PEOPLE};{PEOPLE};", 200_000),
    ("aten::add_", "elementwise", f"{THINGS};{THINGS};", 100_000),
    ("aten::index_select", "indexing", f"{PEOPLE};;500", 50_000),
    ("aten::select", "other", f"{PEOPLE};;", 50_000),
    ("aten::mm", "matmul", "500,64;64,256", 500_000),
)


def test_gradients_as_large_as_their_tables_could_be_sparse(judged: Make, blind: Make) -> None:
    finding = only(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE))
    # At most an index costs as much as 32 rows (a tenth of the larger table, four tenths of the smaller one), and the
    # calls as much as 262,144 numbers (a twentieth, a fifth).
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (400_000, 294_160, 396_000)
    assert finding.blames == ("aten::add_", "aten::fill_")
    assert finding.replay == ("op:aten::add_=0.3024", "op:aten::fill_=0.1512")
    assert "500 of 160,000 rows" in finding.message


def test_a_call_with_lists_of_tensors_counts_by_what_is_of_tables(judged: Make, blind: Make) -> None:
    # Of each list 5,120,000 numbers are of the table, 1,280,000 are not.
    lists = f"{PEOPLE};40,32000;;{PEOPLE};40,32000;;"
    rows = (("aten::_fused_adam_", "optimizer", lists, 500_000), ("aten::mm", "matmul", "500,64;64,256", 500_000))
    finding = only(cmp016.dense_embedding_gradient, of_tables(judged, blind, *rows))
    assert finding.cost_ns == 400_000


def test_more_steps_alike_change_nothing_about_tables(judged: Make, blind: Make) -> None:
    one = only(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE))
    thrice = of_tables(judged, blind, *[(*row[:3], 3 * row[3]) for row in DENSE], steps=3)
    steps = tuple(step_compute(step=step, kernels=1_000_000) for step in range(3))
    again = only(cmp016.dense_embedding_gradient, replace(thrice, compute=replace(thrice.compute, steps=steps)))
    assert (again.cost_ns, again.gain, again.replay) == (one.cost_ns, one.gain, one.replay)


def test_sparse_small_or_well_read_tables_are_no_finding(judged: Make, blind: Make) -> None:
    assert silent(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE, tables=()))
    assert silent(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE, used=5_000.0))
    small = [(name, kind, shapes.replace("160000", "8192"), ns) for name, kind, shapes, ns in DENSE]
    assert silent(cmp016.dense_embedding_gradient, of_tables(judged, blind, *small, tables=(8_192,), used=16.0))


def test_an_optimizer_of_single_operators_on_a_processor_makes_an_index_cheaper(judged: Make, blind: Make) -> None:
    read_often = of_tables(judged, blind, *DENSE, tables=(160_000,), used=10_000.0)
    assert silent(cmp016.dense_embedding_gradient, read_often)
    on_processor = replace(read_often, vendors={0: "cpu"})
    finding = only(cmp016.dense_embedding_gradient, on_processor)
    # 16 rows for each index: half of what the table costs, and a twentieth for the calls.
    assert (finding.cost_ns, finding.gain.low_ns) == (300_000, 134_640)
    fused = ("aten::_fused_adam_", "optimizer", f"{PEOPLE};{PEOPLE};", 100_000)
    with_fused = of_tables(judged, blind, *DENSE, fused, tables=(160_000,), used=10_000.0)
    assert silent(cmp016.dense_embedding_gradient, replace(with_fused, vendors={0: "cpu"}))
    # What another rank runs does not count.
    elsewhere = [replace(row, ranks=(1,)) if "fused" in row.operator else row for row in with_fused.compute.operators]
    apart = replace(with_fused, vendors={0: "cpu"}, compute=replace(with_fused.compute, operators=tuple(elsewhere)))
    assert only(cmp016.dense_embedding_gradient, apart).gain.low_ns > 0


def test_tables_that_take_little_of_the_step_are_no_finding(judged: Make, blind: Make) -> None:
    assert silent(
        cmp016.dense_embedding_gradient, of_tables(judged, blind, ("aten::fill_", "elementwise", f"{PEOPLE};", 50_000))
    )
    assert only(
        cmp016.dense_embedding_gradient, of_tables(judged, blind, ("aten::fill_", "elementwise", f"{PEOPLE};", 50_100))
    )


@pytest.mark.parametrize("head", ["32,160000", "160000,32"])
def test_a_table_that_a_product_reads_has_a_dense_gradient_anyway(judged: Make, blind: Make, head: str) -> None:
    layer = ("aten::mm", "matmul", f"500,32;{head}", 100_000)
    finding = only(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE, layer))
    assert finding.cost_ns == 100_000
    assert silent(cmp016.dense_embedding_gradient, of_tables(judged, blind, *DENSE[:2], layer, tables=(160_000,)))


def test_tables_count_on_devices_too(judged: Make, split: Make) -> None:
    made = [operator("ForeachAddcmul", "optimizer", 600_000, shapes=f"{PEOPLE};{PEOPLE}", dtypes="FLOAT;FLOAT")]
    host = HostSide(tables=(DenseTable(rank=0, rows=160_000, width=32, used=500.0),))
    found = judged([split(window=1_000_000)], compute=computing(*made), host=host, vendors={0: "ascend"})
    assert only(cmp016.dense_embedding_gradient, found).cost_ns == 600_000


def test_large_operators_on_half_of_the_cores_could_have_the_others(judged: Make, blind: Make) -> None:
    finding = only(cpu011.too_few_threads, on_threads(judged, blind, "1", median_ns=100_000))
    # Four cores for one thread: three quarters of it, four fifths of that at least.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (450_000, 360_000, 450_000)
    assert finding.confidence < 0.25
    assert "OMP_NUM_THREADS=4" in finding.actions[0].do


def test_small_operators_or_most_cores_taken_or_unknown_threads_are_no_finding(judged: Make, blind: Make) -> None:
    assert silent(cpu011.too_few_threads, on_threads(judged, blind, "1", median_ns=99_000))
    for threads in ("3", "4", "many", ""):
        assert silent(cpu011.too_few_threads, on_threads(judged, blind, threads, median_ns=100_000))


# What the monitor counted before the capture ------------------------------------------------------------------------


COUNTERS = (
    "gc_ns",
    "data_ns",
    "data_cpu_ns",
    "save_ns",
    "optimizer_ns",
    "minor_faults",
    "fault_ns",
    "spread_ns",
    "captured_faults",
)


def earlier(**means: int) -> tuple[Before, ...]:
    known: dict[str, int | None] = dict.fromkeys(COUNTERS)
    return (Before(rank=0, calls=50, **{"steps": 90, "step_ns": 1_000, **known, **means}),)  # type: ignore[arg-type]


def test_collections_before_the_capture_take_the_place_of_those_in_it(judged: Make, blind: Make, event: Make) -> None:
    host = HostSide(events=(event("garbage collection", 900),), before=earlier(gc_ns=300, step_ns=2_000))
    finding = only(cpu006.garbage_collection, judged([blind()], host=host))
    assert (finding.cost_ns, finding.share, finding.gain.before) == (150, 0.15, True)
    assert before(n=90) in [fact.what for fact in finding.evidence]


def test_collections_that_the_program_asks_for_are_to_be_deleted(judged: Make, blind: Make, event: Make) -> None:
    asked = event("garbage collection", 600, names=(("gc.collect", 1, 600),))
    (action,) = only(cpu006.garbage_collection, judged([blind()], host=HostSide(events=(asked,)))).actions
    assert action.title.identifier == "cpu006.delete"
    by_itself = event("garbage collection", 600, names=(("garbage collection", 1, 600),))
    own = only(cpu006.garbage_collection, judged([blind()], host=HostSide(events=(by_itself,)))).actions
    assert [(one.do.identifier, one.fit.libraries) for one in own] == [
        ("cpu006.megatron_do", ("megatron", "mindspeed")),
        ("cpu006.choose_do", ()),
    ]


def test_a_capture_without_a_collection_has_those_that_came_before_it(judged: Make, blind: Make) -> None:
    assert (
        only(cpu006.garbage_collection, judged([blind()], host=HostSide(before=earlier(gc_ns=300)))).gain.expected_ns
        == 300
    )
    assert silent(cpu006.garbage_collection, judged([blind()], host=HostSide(before=earlier(gc_ns=9))))
    assert silent(cpu006.garbage_collection, judged([blind()], host=HostSide(before=earlier())))


def test_batches_cost_what_was_waited_for_before_the_capture(judged: Make, blind: Make, fetches: Make) -> None:
    told = earlier(data_ns=400, data_cpu_ns=100, step_ns=2_000)
    own = HostSide(fetches=(fetches("main process", 900),), before=told)
    finding = only(io001.no_workers, judged([blind()], host=own))
    assert (finding.cost_ns, finding.share, finding.gain.before) == (200, 0.2, True)
    workers = HostSide(fetches=(fetches("workers", 900),), before=told)
    # What the loop does itself to receive a batch is left when none is waited for.
    assert only(io002.slow_workers, judged([blind()], host=workers)).cost_ns == 150
    assert silent(
        io002.slow_workers, judged([blind()], host=replace(workers, before=earlier(data_ns=100, data_cpu_ns=60)))
    )


@pytest.mark.parametrize(
    ("own", "cost", "cause"), [(210, 400, "batches_of_many_tensors"), (200, 200, "too_few_workers")]
)
def test_a_loop_that_computes_long_to_receive_a_batch_loses_that_too(
    judged: Make, blind: Make, fetches: Make, own: int, cost: int, cause: str
) -> None:
    host = HostSide(fetches=(fetches("workers", 900),), before=earlier(data_ns=400, data_cpu_ns=own, step_ns=1_000))
    finding = only(io002.slow_workers, judged([blind()], host=host))
    assert (finding.cost_ns, finding.fault) == (cost, cause)
    assert (finding.actions[0].title == "Hand batches over as few tensors") is (cost == 400)


def test_a_save_counts_whether_the_capture_holds_one_or_not(judged: Make, blind: Make) -> None:
    finding = only(io006.saving_blocks, judged([blind()], host=HostSide(before=earlier(save_ns=300))))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 210, 300)
    assert silent(io006.saving_blocks, judged([blind()], host=HostSide(before=earlier(save_ns=19))))
    assert silent(io006.saving_blocks, judged([blind()], host=HostSide(before=earlier(save_ns=0))))


@pytest.mark.parametrize(
    # A loop of 1,000 ns that waits 300 for batches: for a core, too, as far as it is on none.
    ("delay", "cpu", "cost"),
    [(110, 200, 410), (600, 200, 800), (100, 200, 300), (110, None, 410), (600, 900, 300)],
)
def test_workers_that_take_the_cores_cost_the_loop_more_than_the_wait_for_batches(
    judged: Make, blind: Make, fetches: Make, delay: int, cpu: int | None, cost: int
) -> None:
    (told,) = earlier(data_ns=300, step_ns=1_000)
    host = HostSide(fetches=(fetches("workers", 900),), before=(replace(told, delay_ns=delay, cpu_ns=cpu),))
    finding = only(io002.slow_workers, judged([blind()], host=host))
    assert (finding.cost_ns, finding.fault) == (
        cost,
        "no_core_for_workers" if delay > 100 else "too_few_workers",
    )
    # Whether it is the workers that hold the cores nobody knows: what is sure to be won is the wait for batches.
    assert (finding.gain.low_ns, finding.gain.high_ns, finding.confidence) == (300, cost, 0.5 if delay > 100 else 0.85)
    assert ("and for a core" in finding.message) == (delay > 100)
    assert [action.title for action in finding.actions][-1] == "Make a batch cheaper"


def test_cores_that_anybody_may_hold_are_a_preview_where_batches_are_hardly_waited_for(
    judged: Make, blind: Make, fetches: Make
) -> None:
    (told,) = earlier(data_ns=40, step_ns=1_000)
    host = HostSide(fetches=(fetches("workers", 40),), before=(replace(told, delay_ns=500, cpu_ns=300),))
    assert only(io002.slow_workers, judged([blind()], host=host)).state == "preview"


@pytest.mark.parametrize(("loads", "cause"), [(76, "tensors_in_files"), (75, "checkpoint_or_logging")])
def test_what_is_written_and_read_again_is_no_checkpoint(
    judged: Make, blind: Make, event: Make, loads: int, cause: str
) -> None:
    events = (event("checkpoint or logging", 300), event("loading of files", loads))
    finding = only(io006.saving_blocks, judged([blind()], host=HostSide(events=events, before=earlier(save_ns=200))))
    assert (finding.fault, finding.gain.expected_ns) == (cause, 300)


def test_fresh_memory_costs_its_page_faults(judged: Make, blind: Make) -> None:
    finding = only(mem006.fresh_pages, judged([blind()], host=HostSide(before=earlier(minor_faults=30, fault_ns=10))))
    assert (finding.cost_ns, finding.gain.expected_ns) == (300, 300)
    assert finding.message.startswith("30 pages of fresh memory a step take 30%")


def test_few_faults_or_faults_of_unknown_cost_or_beside_a_device_are_no_finding(
    judged: Make, blind: Make, split: Make
) -> None:
    for means in ({"minor_faults": 5, "fault_ns": 10}, {"minor_faults": 900}, {"fault_ns": 10}, {}):
        assert silent(mem006.fresh_pages, judged([blind()], host=HostSide(before=earlier(**means))))
    assert silent(mem006.fresh_pages, judged([split()], host=HostSide(before=earlier(minor_faults=30, fault_ns=10))))


# Communication without a device -------------------------------------------------------------------------------------


def overlap(busy: int, exposed: int) -> StepOverlap:
    part = OverlapPart(
        component="communication", group="dp", events=1, busy_ns=busy, exposed_ns=exposed, alone_ns=exposed
    )
    return StepOverlap(rank=0, step=0, window_ns=1_000, parts=(part,), states=(), absent=())


def accumulating(judged: Make, blind: Make, event: Make, sent: int) -> Given:
    events = (event("forward passes of DistributedDataParallel", 10, calls=4), event("optimizer steps", 10, calls=1))
    rows = computing(operator("c10d::allreduce_", "other", 10, calls=sent, **PLAIN), steps=[step_compute()])
    found: Given = judged([blind()], host=HostSide(events=events, overlap=(overlap(600, 400),)), compute=rows)
    return found


def test_gradients_that_are_reduced_at_each_micro_batch_cost_all_but_one(
    judged: Make, blind: Make, event: Make
) -> None:
    finding = next(com010.reduction_per_micro_batch.find(accumulating(judged, blind, event, 8)))
    # Up to what is hidden, too: it takes cores.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 300, 450)


def test_micro_batches_that_are_reduced_once_are_no_finding(judged: Make, blind: Make, event: Make) -> None:
    assert silent(com010.reduction_per_micro_batch, accumulating(judged, blind, event, 2))


def reducing(judged: Make, blind: Make, rows: int, size: int) -> Given:
    group = group_op(ranks=(0,), rows=rows, split_rows=rows, transfer_ns=500, bytes=rows * size)
    found: Given = judged([blind()], host=HostSide(overlap=(overlap(600, 600),)), groups=[group])
    return found


def test_many_small_collectives_of_one_size_cost_all_but_one(judged: Make, blind: Make) -> None:
    assert only(com004.small_collectives, reducing(judged, blind, 100, 4_000)).cost_ns == 495


def test_no_fit_takes_the_bytes_of_collectives_that_are_all_small_for_their_time(judged: Make, blind: Make) -> None:
    light, heavy = reducing(judged, blind, 100, 4_000), reducing(judged, blind, 100, 70_000)
    for fixed in (150, 499):
        fits = (fit(fixed / 500, fixed, members=(0,)),)
        assert (
            only(
                com004.small_collectives, replace(light, communication=replace(light.communication, fits=fits))
            ).cost_ns
            == 495
        )
        assert (
            only(
                com004.small_collectives, replace(heavy, communication=replace(heavy.communication, fits=fits))
            ).cost_ns
            == fixed
        )


@pytest.mark.parametrize(("rows", "size"), [(8, 4_000), (100, 70_000)])
def test_few_or_large_collectives_are_not_put_together(judged: Make, blind: Make, rows: int, size: int) -> None:
    assert silent(com004.small_collectives, reducing(judged, blind, rows, size))


def calling(judged: Make, blind: Make, event: Make, waits: Sequence[Any] = ()) -> Given:
    group = group_op(ranks=(0, 1), rows=200, split_rows=200, transfer_ns=200, bytes=200 * 4_000)
    host = HostSide(events=(event("calls of collectives", 800),), overlap=(overlap(600, 600),))
    found: Given = judged([blind(0), blind(1)], host=host, groups=[group], waits=waits)
    return found


def test_copies_between_gradients_and_buckets_go_with_the_reductions(judged: Make, blind: Make, event: Make) -> None:
    given = accumulating(judged, blind, event, 8)
    copies = event("copies between gradients and buckets", 200)
    given = replace(given, host=replace(given.host, events=(*given.host.events, copies)))
    finding = next(com010.reduction_per_micro_batch.find(given))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (450, 450, 600)


# Costly forms ---------------------------------------------------------------------------------------------------------

WIDE, SPREAD = "128,1024,64", "128,1,64;1,1024,64;"


def forms(judged: Make, blind: Make, *rows: tuple[str, str, int]) -> Given:
    made = [operator(name, "elementwise", ns, **{**PLAIN, "shapes": shapes}) for name, shapes, ns in rows]
    found: Given = judged([blind()], compute=computing(*made))
    return found


DIFFERENCES = (
    ("aten::sub", SPREAD, 100), ("aten::pow", f"{WIDE};", 150), ("aten::sum", f"{WIDE};;;", 50),
    ("aten::mul", f"{WIDE};{WIDE}", 200),
)  # fmt: skip


def test_distances_by_all_differences_cost_all_that_runs_on_the_differences(judged: Make, blind: Make) -> None:
    found = only(cmp034.costly_form, forms(judged, blind, *DIFFERENCES, ("aten::mm", "64,64;64,64", 40)))
    assert found.cost_ns == 500
    assert (found.fault, found.state) == (Fault.ALL_DIFFERENCES, "stable")
    assert found.blames[0] == "aten::sub"


@pytest.mark.parametrize(
    "rows",
    [
        (*DIFFERENCES, ("aten::addmm", f"64;{WIDE};64,64", 100)),
        DIFFERENCES[:2],
        (("aten::sub", "128,64;1,64;", 100), ("aten::pow", "128,64;", 150), ("aten::sum", "128,64;;;", 100)),
    ],
    ids=["differences that a layer works on", "no sum", "a mean that is taken off"],
)
def test_differences_that_are_used_are_no_costly_form(
    judged: Make, blind: Make, rows: Sequence[tuple[str, str, int]]
) -> None:
    silent(cmp034.costly_form, forms(judged, blind, *rows))


def test_one_hot_vectors_cost_their_zeros_casts_and_products(judged: Make, blind: Make) -> None:
    ones = operator(
        "aten::scatter_",
        "gather",
        20,
        **{**PLAIN, "shapes": "512,90;;512,1;", "dtypes": "long int;Scalar;long int;Scalar"},
    )
    others = [
        operator(name, "matmul", ns, **{**PLAIN, "shapes": shapes})
        for name, shapes, ns in (
            ("aten::_to_copy", "512,90;512,90;", 100), ("aten::mm", "512,90;90,32", 200),
            ("aten::mm", "512,32;32,1", 60),
        )
    ]  # fmt: skip
    found = only(cmp034.costly_form, judged([blind()], compute=computing(ones, *others)))
    assert (found.cost_ns, found.fault, found.state) == (320, Fault.ONE_HOT_PRODUCTS, "preview")
    silent(cmp034.costly_form, judged([blind()], compute=computing(ones)))


@pytest.mark.parametrize(
    ("name", "cause"),
    [("aten::_linalg_svd", Fault.DECOMPOSITIONS), ("aten::sort", Fault.WHOLE_SORTS),
     ("aten::im2col", Fault.UNFOLDED_WINDOWS)],
)  # fmt: skip
def test_forms_that_their_operator_tells_cost_its_time(judged: Make, blind: Make, name: str, cause: Fault) -> None:
    found = only(cmp034.costly_form, forms(judged, blind, (name, "64,64;", 300)))
    assert (found.cost_ns, found.fault, found.state, found.direct) == (300, cause, "preview", True)
    silent(cmp034.costly_form, forms(judged, blind, (name, "64,64;", 30)))


def test_starts_of_workers_in_the_steps_before_count_though_the_capture_holds_none(
    judged: Make, blind: Make, fetches: Make
) -> None:
    rows = (fetches("workers", 10, epochs=0, epoch_ns=0),)
    (before,) = earlier()
    host = HostSide(fetches=rows, before=(replace(before, start_ns=300, starts=5),))
    found = only(io003.workers_anew, judged([blind()], host=host))
    assert (found.cost_ns, found.state, found.gain.before) == (300, "stable", True)
    seldom = HostSide(fetches=rows, before=(replace(before, start_ns=40, starts=1),))
    assert silent(io003.workers_anew, judged([blind()], host=seldom))


def test_waits_for_workers_that_were_started_are_no_waits_for_slow_ones(
    judged: Make, blind: Make, fetches: Make
) -> None:
    (before,) = earlier(data_ns=320)
    host = HostSide(fetches=(fetches("workers", 10, epochs=0, epoch_ns=0),), before=(before,))
    assert only(io002.slow_workers, judged([blind()], host=host)).cost_ns == 320
    started = replace(host, before=(replace(before, start_ns=300, starts=1),))
    assert silent(io002.slow_workers, judged([blind()], host=started))
    # Nor are the cores that they take by starting.
    mostly = replace(host, before=(replace(before, start_ns=200, starts=1, delay_ns=300, cpu_ns=400),))
    assert only(io002.slow_workers, judged([blind()], host=mostly)).cost_ns == 120


# Another thread -----------------------------------------------------------------------------------------------------

THREAD = ThreadRuns(rank=0, name="Thread-1 (produce)", cpu_ns=60, wall_ns=100, line="train.py:40 `produce`", waits=0.0)


@pytest.mark.parametrize(("cpu_ns", "waits", "cost"), [(700, 0.0, 300), (200, 0.0, 600), (700, 0.2, None)])
def test_a_thread_on_a_core_costs_what_the_step_stands_still_meanwhile_and_waits_for_nobody(
    judged: Make, blind: Make, cpu_ns: int, waits: float, cost: int | None
) -> None:
    (before,) = earlier()
    host = HostSide(before=(replace(before, cpu_ns=cpu_ns),))
    made = replace(judged([blind()], host=host), more=(replace(THREAD, waits=waits),))
    if cost is None:
        assert silent(cpu015.thread_beside, made)
        return
    found = only(cpu015.thread_beside, made)
    assert (found.cost_ns, found.gain.low_ns, found.gain.high_ns) == (cost, 0, cost)
    assert found.lines == ("train.py:40 `produce`",)
    assert "Thread `Thread-1 (produce)` runs beside the step" in found.message


def test_without_counters_of_the_steps_before_a_thread_is_no_finding(judged: Make, blind: Make) -> None:
    assert silent(cpu015.thread_beside, replace(judged([blind()]), more=(THREAD,)))
