"""Rules that find what a job computes, checks or sends for nothing; most are of jobs that compute on the processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.rows import computing, fit, group_op, only, operator, silent, step_compute

from hermes.base.say import say
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.host_measures import Before, HostEvents, SettingValues
from hermes.model.job import JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.overlap_measures import OverlapPart, StepOverlap
from hermes.model.tensor_measures import DenseTable, Padding
from hermes.profiles.measure.host.other_threads import ThreadRuns
from hermes.profiles.rules.communication import com010_reduction_per_micro_batch as com010
from hermes.profiles.rules.communication.com004_small_collectives import many_small_collectives as com004
from hermes.profiles.rules.compute import cmp009_wide_floats as cmp009
from hermes.profiles.rules.compute import cmp014_padding as cmp014
from hermes.profiles.rules.compute import cmp033_decoded_anew as cmp033
from hermes.profiles.rules.compute import cmp034_costly_form as cmp034
from hermes.profiles.rules.compute.cmp002_unfused import elementwise_kernels as cmp002
from hermes.profiles.rules.compute.cmp002_unfused import layers_of_many_kernels as cmp013
from hermes.profiles.rules.compute.cmp015_rows_by_index import gather_and_scatter as cmp015
from hermes.profiles.rules.compute.cmp015_rows_by_index import table_gradients as cmp016
from hermes.profiles.rules.environment import env004_anomaly_checks as env004
from hermes.profiles.rules.evidence_messages import before
from hermes.profiles.rules.host import cpu006_garbage_collection as cpu006
from hermes.profiles.rules.host import cpu008_full_cores as cpu008
from hermes.profiles.rules.host.cpu012_threads import busy_thread_beside_loop as cpu015
from hermes.profiles.rules.input import io006_saving_blocks as io006
from hermes.profiles.rules.input import io007_lists_to_tensors as io007
from hermes.profiles.rules.input.io001_waiting_for_input import no_workers as io001
from hermes.profiles.rules.input.io001_waiting_for_input import slow_workers as io002
from hermes.profiles.rules.input.io001_waiting_for_input import workers_started_anew as io003
from hermes.profiles.rules.processor import cmp032_long_floats_of_a_processor as cmp032
from hermes.profiles.rules.processor import cpu009_small_operators as cpu009
from hermes.profiles.rules.processor import cpu010_number_of_threads as cpu010
from hermes.profiles.rules.processor import cpu011_optimizer_of_a_processor as cpu011
from hermes.profiles.rules.processor import mem006_fresh_pages as mem006

Make = Callable[..., Any]
PLAIN = {"chip": None, "dtypes": "float;float", "precision": "fp32"}


def set_to(**values: str) -> tuple[SettingValues, ...]:
    return tuple(
        SettingValues(source="environment", name=name.replace("__", "."), values=((value, (0,)),), absent=())
        for name, value in values.items()
    )


# Checks of numbers and conversions ----------------------------------------------------------------------------------


def test_checks_of_numbers_cost_their_own_time_where_there_is_no_device(
    measures: Make, blind: Make, event: Make
) -> None:
    row = event("checks of numbers", 400, names=(("train.py(9): check", 3, 400),))
    finding = only(env004.anomaly_checks, measures([blind()], row))
    assert (finding.cost_ns, finding.gain.expected_ns, finding.fault) == (400, 400, "checks_of_numbers")
    assert [say(action.title) for action in finding.actions] == ["Check numbers for NaN and infinity rarely"]


def test_tracebacks_under_operators_are_anomaly_detection(measures: Make, blind: Make, event: Make) -> None:
    row = event("checks of numbers", 400, names=(("torch/fx/traceback.py(1): format_stack", 3, 400),))
    finding = only(env004.anomaly_checks, measures([blind()], row))
    assert say(finding.message).startswith("Anomaly detection takes 40%")


def test_one_check_a_step_that_takes_three_percent_is_no_finding(measures: Make, blind: Make, event: Make) -> None:
    assert silent(env004.anomaly_checks, measures([blind()], event("checks of numbers", 30)))


def spending(found: JobMeasures, spent: dict[Leaf, int]) -> JobMeasures:
    """The measures, with the time that rank 0 spends in leaves."""
    rows = [row for kind in found.kinds for row in found.rows(kind)]
    return JobMeasures(replace(found.job, spent={0: spent}), rows)


def test_checks_on_the_processor_lie_in_operators(measures: Make, blind: Make, event: Make) -> None:
    found = spending(measures([blind()], event("checks of numbers", 400)), {Leaf.OTHER_COMPUTE: 900})
    assert only(env004.anomaly_checks, found).cost_ns == 400


def test_the_recorded_setting_tells_anomaly_detection_where_tracebacks_are_not_recorded(
    measures: Make, blind: Make, event: Make
) -> None:
    row = event("checks of numbers", 40, names=(("aten::isnan", 3, 40),))
    made = measures([blind()], row, *set_to(torch__anomaly_enabled="True"))
    finding = only(env004.anomaly_checks, spending(made, {Leaf.MATRIX_PRODUCT: 500, Leaf.DISPATCH: 200}))
    assert finding.message.identifier == "env004.is_on"
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns, finding.gain.replayed) == (700, 40, 700, False)
    assert [say(action.title) for action in finding.actions] == ["Switch anomaly detection of autograd off"]


def test_with_a_device_only_idle_time_may_hold_tracebacks(measures: Make, split: Make) -> None:
    made = measures([split(free=300)], *set_to(torch__anomaly_enabled="True"))
    finding = only(env004.anomaly_checks, spending(made, {Leaf.MATRIX_PRODUCT: 700, Leaf.DISPATCH: 300}))
    assert (finding.cost_ns, finding.gain.low_ns) == (300, 0)


def test_anomaly_detection_that_is_off_is_no_finding(measures: Make, blind: Make) -> None:
    made = measures([blind()], *set_to(torch__anomaly_enabled="False"))
    assert silent(env004.anomaly_checks, spending(made, {Leaf.MATRIX_PRODUCT: 500}))


def test_lists_count_with_what_it_takes_to_unpickle_them(measures: Make, blind: Make, event: Make) -> None:
    finding = only(
        io007.lists_to_tensors, measures([blind()], event("conversion of lists", 300), event("unpickling", 200))
    )
    assert finding.cost_ns == 500


def test_a_sequence_whose_elements_are_not_known_is_not_called_a_list(measures: Make, blind: Make, event: Make) -> None:
    row = event("conversion of lists", 300, names=(("<built-in method tensor of type object at 0x1>", 3, 300),))
    finding = only(io007.lists_to_tensors, measures([blind()], row))
    assert finding.message.identifier == "io007.of_sequences"
    assert "list" not in say(finding.message) + say(finding.actions[0].title)
    assert say(finding.actions[0].do).startswith("If the elements are arrays, stack them first")


def test_unpickling_alone_is_no_list(measures: Make, blind: Make, event: Make) -> None:
    assert silent(
        io007.lists_to_tensors, measures([blind()], event("conversion of lists", 50), event("unpickling", 600))
    )


# Padding ------------------------------------------------------------------------------------------------------------


def padded(measures: Make, blind: Make, before: float) -> JobMeasures:
    rows = computing(operator("aten::mm", "matmul", 800, **PLAIN), operator("aten::sgd", "optimizer", 200, **PLAIN))
    found: JobMeasures = measures([blind()], Padding(rank=0, samples=8, before=before, after=100.0), *rows)
    return found


def test_padding_costs_its_part_of_all_compute_but_the_optimizers(measures: Make, blind: Make) -> None:
    finding = only(cmp014.padding, padded(measures, blind, 25.0))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (600, 360, 600)


def test_a_fifth_of_padding_is_no_finding(measures: Make, blind: Make) -> None:
    assert silent(cmp014.padding, padded(measures, blind, 80.0))


# Threads and types --------------------------------------------------------------------------------------------------


def on_threads(measures: Make, blind: Make, threads: str, **more: Any) -> JobMeasures:
    row = operator("aten::mm", "matmul", 600_000, **({"median_ns": 20_000} | PLAIN | more))
    found: JobMeasures = measures(
        [blind(host=1_000_000)], *set_to(cpu__cores="4", torch__num_threads=threads), *computing(row)
    )
    return found


def test_threads_beyond_the_cores_cost_at_most_what_operators_take(measures: Make, blind: Make) -> None:
    finding = only(cpu010.number_of_threads, on_threads(measures, blind, "16"))
    # Sixteen threads on four cores: at least half of it, at most what is beyond a turn of four.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (600_000, 300_000, 450_000)


@pytest.mark.parametrize("threads", ["1", "4", "6", "many"])
def test_as_many_threads_as_cores_are_no_finding(measures: Make, blind: Make, threads: str) -> None:
    assert silent(cpu010.number_of_threads, on_threads(measures, blind, threads))


def test_threads_of_operators_that_are_too_small_for_them_cost_nothing(measures: Make, blind: Make) -> None:
    small = computing(operator("aten::add", "elementwise", 600_000, median_ns=5_000, **PLAIN))
    assert silent(cpu010.number_of_threads, on_threads(measures, blind, "16").with_rows(small))


@pytest.mark.parametrize(("short", "won"), [("avx512", 300_000), ("amx", 420_000), ("arm", 300_000), ("none", 0)])
def test_float32_is_slow_on_a_processor_that_is_recorded_to_have_a_shorter_type(
    measures: Make, blind: Make, short: str, won: int
) -> None:
    row = operator("aten::mm", "matmul", 600_000, median_ns=200_000, **PLAIN)
    given = measures([blind(host=1_000_000)], *set_to(cpu__bf16=short), *computing(row))
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
    measures: Make, blind: Make, name: str, flops: int | None, silently: bool
) -> None:
    # A thousand operations a nanosecond and core of four are beyond what a dense product can do.
    row = replace(operator(name, "matmul", 600_000, median_ns=200_000, **PLAIN), flops=flops, calls=3)
    given = measures([blind(host=1_000_000)], *set_to(cpu__bf16="avx512", cpu__cores="4"), *computing(row))
    assert silent(cmp032.long_floats_of_a_processor, given) is silently


def test_float64_on_a_processor_costs_half_of_all_its_operators(measures: Make, blind: Make) -> None:
    double = PLAIN | {"dtypes": "double;double", "precision": "fp64"}
    rows = computing(
        operator("aten::mm", "matmul", 300_000, **double),
        operator("aten::tanh", "elementwise", 300_000, **double),
        operator("aten::mm", "matmul", 300_000, **PLAIN),
    )
    finding = only(cmp009.wide_floats, measures([blind(host=1_000_000)], *rows))
    assert (finding.cost_ns, finding.gain.low_ns, finding.confidence) == (300_000, 300_000, 0.7)
    assert [say(action.title) for action in finding.actions] == ["Compute in float32"]


def test_float64_beside_float32_that_could_be_shorter_is_a_finding_of_its_own(measures: Make, blind: Make) -> None:
    rows = computing(
        operator("aten::mm", "matmul", 400_000, **(PLAIN | {"precision": "fp64"})),
        operator("aten::mm", "matmul", 600_000, median_ns=200_000, **PLAIN),
    )
    given = measures([blind(host=1_000_000)], *set_to(cpu__bf16="avx512"), *rows)
    found = only(cmp009.wide_floats, given), only(cmp032.long_floats_of_a_processor, given)
    assert [(one.cost_ns, one.confidence) for one in found] == [(200_000, 0.7), (300_000, 0.25)]


# Sequences that are computed anew ------------------------------------------------------------------------------------


def decoding(measures: Make, blind: Make, lengths: Sequence[int], name: str = "aten::addmm") -> JobMeasures:
    rows = [operator(name, "matmul", 40, calls=2, **{**PLAIN, "shapes": f"64;{length},64;64,64"}) for length in lengths]
    found: JobMeasures = measures([blind()], *computing(*rows))
    return found


def test_a_sequence_that_is_computed_anew_for_each_element_costs_all_but_the_new_ones(
    measures: Make, blind: Make
) -> None:
    found = only(cmp033.decoded_anew, decoding(measures, blind, range(1, 21)))
    # Of 20 products of 40 ns each, what is not the last of 1, 2, ... 20 elements.
    assert found.cost_ns == round(sum(40 * (1 - 1 / length) for length in range(1, 21)))


def test_a_size_that_was_not_recorded_whole_hides_no_sequence(measures: Make, blind: Make) -> None:
    lengths = [length for length in range(6, 121, 6) if length != 60]
    found = only(cmp033.decoded_anew, decoding(measures, blind, lengths))
    assert found.cost_ns == round(sum(40 * (1 - 6 / length) for length in lengths))


@pytest.mark.parametrize(
    ("lengths", "name"),
    [(range(1, 8), "aten::addmm"), ([*range(1, 20), 25], "aten::addmm"), (range(1, 21), "aten::bmm")],
    ids=["few sizes", "sizes that vary", "attention over what is kept"],
)
def test_inputs_of_other_sizes_are_no_sequence_that_grows(
    measures: Make, blind: Make, lengths: Sequence[int], name: str
) -> None:
    assert silent(cmp033.decoded_anew, decoding(measures, blind, lengths, name))


# Chains of elementwise operators ------------------------------------------------------------------------------------


def layers(measures: Make, blind: Make, calls: int) -> JobMeasures:
    rows = computing(
        operator("aten::mm", "matmul", 400, calls=10, **PLAIN),
        operator("aten::mul", "elementwise", 600, calls=calls, **PLAIN),
    )
    found: JobMeasures = measures([blind()], *rows)
    return found


def test_elementwise_calls_in_a_row_are_won_by_half_without_a_device(measures: Make, blind: Make) -> None:
    assert only(cmp002.unfused, layers(measures, blind, 30)).gain.expected_ns == 300


def test_what_a_compiler_gives_on_a_processor_is_a_preview_unless_most_of_the_step_is_such_calls(
    measures: Make, blind: Make
) -> None:
    assert only(cmp002.unfused, layers(measures, blind, 30)).state == "stable"
    half = computing(
        operator("aten::mm", "matmul", 600, calls=10, **PLAIN),
        operator("aten::mul", "elementwise", 400, calls=30, **PLAIN),
    )
    assert only(cmp002.unfused, measures([blind()], *half)).state == "preview"


def test_an_activation_for_each_product_has_nothing_to_be_fused_with(measures: Make, blind: Make) -> None:
    assert silent(cmp002.unfused, layers(measures, blind, 29))


def test_attention_counts_what_is_done_to_scores_backward_too(measures: Make, blind: Make) -> None:
    scores = {"shapes": "4,64,64", "calls": 2, **PLAIN}
    rows = computing(
        operator("aten::bmm", "batched matmul", 400, calls=12, **PLAIN),
        operator("aten::_softmax", "softmax", 100, **scores),
        operator("aten::div", "elementwise", 100, **(scores | {"calls": 4})),
        operator("aten::_softmax_backward_data", "softmax", 100, **(scores | {"shapes": "4,64,64;4,64,64"})),
    )
    finding = only(cmp013.decomposed_layer, measures([blind()], *rows))
    assert (finding.cost_ns, finding.gain.expected_ns) == (300, 300)


@pytest.mark.parametrize(("calls", "confidence"), [(16, 0.7), (15, 0.4)])
def test_small_operators_that_are_in_no_loop_are_a_small_model(
    measures: Make, blind: Make, host_step: Make, calls: int, confidence: float
) -> None:
    rows = [operator("aten::add", "x", 1_000, calls=calls, median_ns=1_000, shapes=f"{at}", **PLAIN) for at in range(9)]
    finding = only(
        cpu009.small_operators,
        measures([blind(host=5_000_000)], host_step({"operators": 3_000_000}), *computing(*rows)),
    )
    assert finding.confidence == confidence
    assert any(
        say(one.what) == "calls of small operators in loops" and one.value == (calls == 16) for one in finding.evidence
    )


def test_elementwise_operators_of_a_recurrent_layer_cannot_be_fused(
    measures: Make, blind: Make, event: Make, host_step: Make
) -> None:
    row = operator("aten::mul", "elementwise", 4_000_000, calls=900, **PLAIN)
    given = measures([blind(host=10_000_000)], host_step({"operators": 10_000_000}), *computing(row))
    assert only(cmp002.unfused, given).gain.high_ns == 2_000_000
    half, most = event("recurrent layers", 5_000_000), event("recurrent layers", 8_000_000)
    assert only(cmp002.unfused, given.with_rows([half])).gain.high_ns == 1_000_000
    assert silent(cmp002.unfused, given.with_rows([most]))


# Rows by index, and fewer threads than cores ------------------------------------------------------------------------


def by_index(measures: Make, blind: Make, *rows: tuple[str, str, int]) -> JobMeasures:
    made = [operator(name, kind, ns, **PLAIN) for name, kind, ns in rows]
    found: JobMeasures = measures([blind(host=1_000_000)], *computing(*made))
    return found


def test_rows_read_and_added_by_index_could_be_a_sparse_product(measures: Make, blind: Make) -> None:
    rows = (
        ("aten::index_select", "indexing", 300_000),
        ("aten::scatter_add_", "indexing", 100_000),
        ("aten::mm", "matmul", 600_000),
    )
    finding = only(cmp015.gather_scatter, by_index(measures, blind, *rows))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (400_000, 0, 320_000)
    assert finding.blames == ("aten::index_select", "aten::scatter_add_")


@pytest.mark.parametrize(
    "adds", ["ScatterAdd", "aten::embedding_dense_backward", "aten::_index_put_impl_", "IndexPutV2"]
)
def test_operators_that_add_rows_are_known_by_their_names(measures: Make, blind: Make, adds: str) -> None:
    assert only(
        cmp015.gather_scatter, by_index(measures, blind, (adds, "embedding", 200_000), ("aten::mm", "matmul", 800_000))
    )


def test_rows_that_are_only_read_or_take_little_are_no_finding(measures: Make, blind: Make) -> None:
    assert silent(cmp015.gather_scatter, by_index(measures, blind, ("aten::index_select", "indexing", 400_000)))
    few = (("aten::index", "indexing", 50_000), ("aten::index_add_", "indexing", 50_000))
    assert silent(cmp015.gather_scatter, by_index(measures, blind, *few))


# Gradients as large as their tables ---------------------------------------------------------------------------------

PEOPLE, THINGS = "160000,32", "40000,32"


def of_tables(measures: Make, blind: Make, *rows: tuple[str, str, str, int], **given: Any) -> JobMeasures:
    """A step of a millisecond; `given` are two tables by their rows, and the indices of a lookup."""
    made = [operator(name, kind, ns, **PLAIN, shapes=shapes) for name, kind, shapes, ns in rows]
    used, vendors = given.pop("used", 500.0), given.pop("vendors", None)
    tables = tuple(DenseTable(rank=0, rows=n, width=32, used=used) for n in given.pop("tables", (160_000, 40_000)))
    splits = [blind(step=step, host=1_000_000) for step in range(given.pop("steps", 1))]
    found: JobMeasures = measures(splits, *computing(*made), *tables, vendors=vendors)
    return found


DENSE = (
    ("aten::fill_", "elementwise", f"{PEOPLE};", 100_000),
    ("aten::add_", "elementwise", f"{PEOPLE};{PEOPLE};", 200_000),
    ("aten::add_", "elementwise", f"{THINGS};{THINGS};", 100_000),
    ("aten::index_select", "indexing", f"{PEOPLE};;500", 50_000),
    ("aten::select", "other", f"{PEOPLE};;", 50_000),
    ("aten::mm", "matmul", "500,64;64,256", 500_000),
)


def test_gradients_as_large_as_their_tables_could_be_sparse(measures: Make, blind: Make) -> None:
    finding = only(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE))
    # At most an index costs as much as 32 rows (a tenth of the larger table, four tenths of the smaller one), and the
    # calls as much as 262,144 numbers (a twentieth, a fifth).
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (400_000, 294_160, 396_000)
    assert finding.blames == ("aten::add_", "aten::fill_")
    assert finding.replay == ("op:aten::add_=0.3024", "op:aten::fill_=0.1512")
    assert "500 of 160,000 rows" in say(finding.message)


def test_a_call_with_lists_of_tensors_counts_by_what_is_of_tables(measures: Make, blind: Make) -> None:
    # Of each list 5,120,000 numbers are of the table, 1,280,000 are not.
    lists = f"{PEOPLE};40,32000;;{PEOPLE};40,32000;;"
    rows = (("aten::_fused_adam_", "optimizer", lists, 500_000), ("aten::mm", "matmul", "500,64;64,256", 500_000))
    finding = only(cmp016.dense_embedding_gradient, of_tables(measures, blind, *rows))
    assert finding.cost_ns == 400_000


def test_more_steps_alike_change_nothing_about_tables(measures: Make, blind: Make) -> None:
    one = only(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE))
    thrice = of_tables(measures, blind, *[(*row[:3], 3 * row[3]) for row in DENSE], steps=3)
    steps = [step_compute(step=step, kernels=1_000_000) for step in range(3)]
    again = only(cmp016.dense_embedding_gradient, thrice.with_rows(steps))
    assert (again.cost_ns, again.gain, again.replay) == (one.cost_ns, one.gain, one.replay)


def test_sparse_small_or_well_read_tables_are_no_finding(measures: Make, blind: Make) -> None:
    assert silent(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE, tables=()))
    assert silent(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE, used=5_000.0))
    small = [(name, kind, shapes.replace("160000", "8192"), ns) for name, kind, shapes, ns in DENSE]
    assert silent(cmp016.dense_embedding_gradient, of_tables(measures, blind, *small, tables=(8_192,), used=16.0))


def test_an_optimizer_of_single_operators_on_a_processor_makes_an_index_cheaper(measures: Make, blind: Make) -> None:
    read_often = of_tables(measures, blind, *DENSE, tables=(160_000,), used=10_000.0)
    assert silent(cmp016.dense_embedding_gradient, read_often)
    cpu: dict[str, Any] = {"tables": (160_000,), "used": 10_000.0, "vendors": {0: "cpu"}}
    finding = only(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE, **cpu))
    # 16 rows for each index: half of what the table costs, and a twentieth for the calls.
    assert (finding.cost_ns, finding.gain.low_ns) == (300_000, 134_640)
    fused = ("aten::_fused_adam_", "optimizer", f"{PEOPLE};{PEOPLE};", 100_000)
    with_fused = of_tables(measures, blind, *DENSE, fused, **cpu)
    assert silent(cmp016.dense_embedding_gradient, with_fused)
    # What another rank runs does not count.
    rows = with_fused.rows(OperatorCost)
    elsewhere = [replace(row, ranks=(1,)) if "fused" in row.operator else row for row in rows]
    assert only(cmp016.dense_embedding_gradient, with_fused.with_rows(elsewhere)).gain.low_ns > 0


def test_tables_that_take_little_of_the_step_are_no_finding(measures: Make, blind: Make) -> None:
    assert silent(
        cmp016.dense_embedding_gradient,
        of_tables(measures, blind, ("aten::fill_", "elementwise", f"{PEOPLE};", 50_000)),
    )
    assert only(
        cmp016.dense_embedding_gradient,
        of_tables(measures, blind, ("aten::fill_", "elementwise", f"{PEOPLE};", 50_100)),
    )


@pytest.mark.parametrize("head", ["32,160000", "160000,32"])
def test_a_table_that_a_product_reads_has_a_dense_gradient_anyway(measures: Make, blind: Make, head: str) -> None:
    layer = ("aten::mm", "matmul", f"500,32;{head}", 100_000)
    finding = only(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE, layer))
    assert finding.cost_ns == 100_000
    assert silent(cmp016.dense_embedding_gradient, of_tables(measures, blind, *DENSE[:2], layer, tables=(160_000,)))


def test_tables_count_on_devices_too(measures: Make, split: Make) -> None:
    made = [operator("ForeachAddcmul", "optimizer", 600_000, shapes=f"{PEOPLE};{PEOPLE}", dtypes="FLOAT;FLOAT")]
    found = measures(
        [split(window=1_000_000)],
        *computing(*made),
        DenseTable(rank=0, rows=160_000, width=32, used=500.0),
        vendors={0: "ascend"},
    )
    assert only(cmp016.dense_embedding_gradient, found).cost_ns == 600_000


def test_operators_of_uneven_steps_cost_their_mean_of_the_mean_step(measures: Make, blind: Make) -> None:
    made = [operator("aten::add_", "elementwise", 2_700_000, **PLAIN, shapes=f"{PEOPLE};{PEOPLE};")]
    table = DenseTable(rank=0, rows=160_000, width=32, used=500.0)
    splits = [blind(step=step, host=host) for step, host in enumerate((500_000, 500_000, 2_000_000))]
    finding = only(cmp016.dense_embedding_gradient, measures(splits, *computing(*made), table))
    assert (finding.cost_ns, finding.share) == (900_000, 0.9)


def test_large_operators_on_half_of_the_cores_could_have_the_others(measures: Make, blind: Make) -> None:
    finding = only(cpu010.number_of_threads, on_threads(measures, blind, "1", median_ns=100_000))
    # Four cores for one thread: three quarters of it, four fifths of that at least.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (450_000, 360_000, 450_000)
    assert finding.confidence < 0.25
    assert "OMP_NUM_THREADS=4" in say(finding.actions[0].do)


def test_small_operators_or_most_cores_taken_or_unknown_threads_are_no_finding(measures: Make, blind: Make) -> None:
    assert silent(cpu010.number_of_threads, on_threads(measures, blind, "1", median_ns=99_000))
    for threads in ("3", "4", "many", ""):
        assert silent(cpu010.number_of_threads, on_threads(measures, blind, threads, median_ns=100_000))


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


def earlier(**means: int) -> Before:
    known: dict[str, int | None] = dict.fromkeys(COUNTERS)
    return Before(rank=0, calls=50, **{"steps": 90, "step_ns": 1_000, **known, **means})  # type: ignore[arg-type]


def test_collections_before_the_capture_take_the_place_of_those_in_it(measures: Make, blind: Make, event: Make) -> None:
    finding = only(
        cpu006.garbage_collection,
        measures([blind()], event("garbage collection", 900), earlier(gc_ns=300, step_ns=2_000)),
    )
    assert (finding.cost_ns, finding.share, finding.gain.before) == (150, 0.15, True)
    assert before(n=90) in [fact.what for fact in finding.evidence]


def test_collections_that_the_program_asks_for_are_to_be_deleted(measures: Make, blind: Make, event: Make) -> None:
    asked = event("garbage collection", 600, names=(("gc.collect", 1, 600),))
    (action,) = only(cpu006.garbage_collection, measures([blind()], asked)).actions
    assert action.title.identifier == "cpu006.delete"
    by_itself = event("garbage collection", 600, names=(("garbage collection", 1, 600),))
    own = only(cpu006.garbage_collection, measures([blind()], by_itself)).actions
    assert [(one.do.identifier, one.fit.libraries) for one in own] == [
        ("cpu006.megatron_do", ("megatron", "mindspeed")),
        ("cpu006.choose_do", ()),
    ]


def test_a_capture_without_a_collection_has_those_that_came_before_it(measures: Make, blind: Make) -> None:
    assert only(cpu006.garbage_collection, measures([blind()], earlier(gc_ns=300))).gain.expected_ns == 300
    assert silent(cpu006.garbage_collection, measures([blind()], earlier(gc_ns=9)))
    assert silent(cpu006.garbage_collection, measures([blind()], earlier()))


def test_batches_cost_what_was_waited_for_before_the_capture(measures: Make, blind: Make, fetches: Make) -> None:
    told = earlier(data_ns=400, data_cpu_ns=100, step_ns=2_000)
    finding = only(io001.no_workers, measures([blind()], fetches("main process", 900), told))
    assert (finding.cost_ns, finding.share, finding.gain.before) == (200, 0.2, True)
    workers = fetches("workers", 900)
    # What the loop does itself to receive a batch is left when none is waited for.
    assert only(io002.slow_workers, measures([blind()], workers, told)).cost_ns == 150
    assert silent(io002.slow_workers, measures([blind()], workers, earlier(data_ns=100, data_cpu_ns=60)))


@pytest.mark.parametrize(
    ("own", "cost", "cause"), [(210, 400, "batches_of_many_tensors"), (200, 200, "too_few_workers")]
)
def test_a_loop_that_computes_long_to_receive_a_batch_loses_that_too(
    measures: Make, blind: Make, fetches: Make, own: int, cost: int, cause: str
) -> None:
    finding = only(
        io002.slow_workers,
        measures([blind()], fetches("workers", 900), earlier(data_ns=400, data_cpu_ns=own, step_ns=1_000)),
    )
    assert (finding.cost_ns, finding.fault) == (cost, cause)
    assert (say(finding.actions[0].title) == "Hand batches over as few large tensors") is (cost == 400)


def test_a_save_counts_whether_the_capture_holds_one_or_not(measures: Make, blind: Make) -> None:
    finding = only(io006.saving_blocks, measures([blind()], earlier(save_ns=300)))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 210, 300)
    assert silent(io006.saving_blocks, measures([blind()], earlier(save_ns=19)))
    assert silent(io006.saving_blocks, measures([blind()], earlier(save_ns=0)))


@pytest.mark.parametrize(
    # A loop of 1,000 ns that waits 300 for batches: for a core, too, as far as it is on none.
    ("delay", "cpu", "cost"),
    [(110, 200, 410), (600, 200, 800), (100, 200, 300), (110, None, 410), (600, 900, 300)],
)
def test_workers_that_take_the_cores_cost_the_loop_more_than_the_wait_for_batches(
    measures: Make, blind: Make, fetches: Make, delay: int, cpu: int | None, cost: int
) -> None:
    told = earlier(data_ns=300, step_ns=1_000)
    finding = only(
        io002.slow_workers, measures([blind()], fetches("workers", 900), replace(told, delay_ns=delay, cpu_ns=cpu))
    )
    assert (finding.cost_ns, finding.fault) == (
        cost,
        "no_core_for_workers" if delay > 100 else "too_few_workers",
    )
    # Whether it is the workers that hold the cores nobody knows: what is sure to be won is the wait for batches.
    assert (finding.gain.low_ns, finding.gain.high_ns, finding.confidence) == (300, cost, 0.5 if delay > 100 else 0.85)
    assert ("and for a core" in say(finding.message)) == (delay > 100)
    assert [say(action.title) for action in finding.actions][-1] == "Make each batch with less work"


def test_cores_that_anybody_may_hold_are_a_preview_where_batches_are_hardly_waited_for(
    measures: Make, blind: Make, fetches: Make
) -> None:
    told = earlier(data_ns=40, step_ns=1_000)
    assert (
        only(
            io002.slow_workers, measures([blind()], fetches("workers", 40), replace(told, delay_ns=500, cpu_ns=300))
        ).state
        == "preview"
    )


@pytest.mark.parametrize(("loads", "cause"), [(76, "tensors_in_files"), (75, "checkpoint_or_logging")])
def test_what_is_written_and_read_again_is_no_checkpoint(
    measures: Make, blind: Make, event: Make, loads: int, cause: str
) -> None:
    finding = only(
        io006.saving_blocks,
        measures(
            [blind()], event("checkpoint or logging", 300), event("loading of files", loads), earlier(save_ns=200)
        ),
    )
    assert (finding.fault, finding.gain.expected_ns) == (cause, 300)


@pytest.mark.parametrize(("name", "low", "high"), [("Adam", 165, 276), ("AdamW", 165, 276), ("SGD", 60, 180)])
def test_an_optimizer_that_is_not_fused_gives_what_the_fused_form_saves(
    measures: Make, blind: Make, event: Make, name: str, low: int, high: int
) -> None:
    ops = computing(operator("aten::addcdiv_", "elementwise", 200))
    finding = only(
        cpu011.optimizer_of_a_processor,
        measures([blind()], *ops, event("optimizer steps", 300, names=((f"Optimizer.step#{name}.step", 1, 300),))),
    )
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, low, high)
    assert say(finding.message) == f"{name} updates parameter by parameter, 30% of the step"
    assert say(finding.actions[0].do) == f"Use torch.optim.{name}(model.parameters(), …, fused=True)"


def test_a_fused_optimizer_or_one_without_that_form_or_a_small_one_or_one_of_a_device_is_no_finding(
    measures: Make, blind: Make, split: Make, event: Make
) -> None:
    def told(name: str, ns: int, *ops: OperatorCost, step: Make = blind) -> JobMeasures:
        return measures(
            [step()], *computing(*ops), event("optimizer steps", ns, names=((f"Optimizer.step#{name}.step", 1, ns),))
        )

    plain, fused = operator("aten::addcdiv_", "elementwise", 200), operator("aten::_fused_adam_", "optimizer", 200)
    assert silent(cpu011.optimizer_of_a_processor, told("Adam", 300, plain, fused))
    assert silent(cpu011.optimizer_of_a_processor, told("RMSprop", 300, plain))
    assert silent(cpu011.optimizer_of_a_processor, told("Adam", 90, plain))
    assert silent(cpu011.optimizer_of_a_processor, told("Adam", 300, plain, step=split))
    assert not silent(cpu011.optimizer_of_a_processor, told("Adam", 300, plain))


def test_fresh_memory_costs_its_page_faults(measures: Make, blind: Make) -> None:
    finding = only(mem006.fresh_pages, measures([blind()], earlier(minor_faults=30, fault_ns=10)))
    assert (finding.cost_ns, finding.gain.expected_ns) == (300, 300)
    assert say(finding.message).startswith("30 pages of fresh memory a step take 30%")


def test_few_faults_or_faults_of_unknown_cost_or_beside_a_device_are_no_finding(
    measures: Make, blind: Make, split: Make
) -> None:
    for means in ({"minor_faults": 5, "fault_ns": 10}, {"minor_faults": 900}, {"fault_ns": 10}, {}):
        assert silent(mem006.fresh_pages, measures([blind()], earlier(**means)))
    assert silent(mem006.fresh_pages, measures([split()], earlier(minor_faults=30, fault_ns=10)))


# Communication without a device -------------------------------------------------------------------------------------


def overlap(busy: int, exposed: int) -> StepOverlap:
    part = OverlapPart(
        component="communication", group="dp", events=1, busy_ns=busy, exposed_ns=exposed, alone_ns=exposed
    )
    return StepOverlap(rank=0, step=0, window_ns=1_000, parts=(part,), states=(), absent=())


def accumulating(measures: Make, blind: Make, event: Make, sent: int) -> JobMeasures:
    rows = computing(operator("c10d::allreduce_", "other", 10, calls=sent, **PLAIN), step_compute())
    found: JobMeasures = measures(
        [blind()],
        event("forward passes of DistributedDataParallel", 10, calls=4),
        event("optimizer steps", 10, calls=1),
        overlap(600, 400),
        *rows,
    )
    return found


def test_gradients_that_are_reduced_at_each_micro_batch_cost_all_but_one(
    measures: Make, blind: Make, event: Make
) -> None:
    finding = next(com010.reduction_per_micro_batch.find(accumulating(measures, blind, event, 8)))
    # Up to what is hidden, too: it takes cores. How much of it is waits for other ranks is not known.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, 0, 450)


@pytest.mark.parametrize(("waits", "least"), [(0, 300), (100, 225), (1_000, 0)])
def test_waits_for_other_ranks_may_stay_with_the_reduction_that_remains(
    waits: int, least: int, measures: Make, blind: Make, event: Make
) -> None:
    given = accumulating(measures, blind, event, 8)
    group = group_op(wait_ns=waits, transfer_ns=600)
    finding = next(com010.reduction_per_micro_batch.find(given.with_rows([group])))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (300, least, 450)


def test_micro_batches_that_are_reduced_once_are_no_finding(measures: Make, blind: Make, event: Make) -> None:
    assert silent(com010.reduction_per_micro_batch, accumulating(measures, blind, event, 2))


def reducing(measures: Make, blind: Make, rows: int, size: int) -> JobMeasures:
    group = group_op(ranks=(0,), rows=rows, split_rows=rows, transfer_ns=500, bytes=rows * size)
    found: JobMeasures = measures([blind()], overlap(600, 600), group)
    return found


def test_many_small_collectives_of_one_size_cost_all_but_one(measures: Make, blind: Make) -> None:
    assert only(com004.small_collectives, reducing(measures, blind, 100, 4_000)).cost_ns == 495


def test_no_fit_takes_the_bytes_of_collectives_that_are_all_small_for_their_time(measures: Make, blind: Make) -> None:
    light, heavy = reducing(measures, blind, 100, 4_000), reducing(measures, blind, 100, 70_000)
    for fixed in (150, 499):
        row = fit(fixed / 500, fixed, members=(0,))
        assert only(com004.small_collectives, light.with_rows([row])).cost_ns == 495
        assert only(com004.small_collectives, heavy.with_rows([row])).cost_ns == fixed


@pytest.mark.parametrize(("rows", "size"), [(8, 4_000), (100, 70_000)])
def test_few_or_large_collectives_are_not_put_together(measures: Make, blind: Make, rows: int, size: int) -> None:
    assert silent(com004.small_collectives, reducing(measures, blind, rows, size))


def test_copies_between_gradients_and_buckets_go_with_the_reductions(measures: Make, blind: Make, event: Make) -> None:
    given = accumulating(measures, blind, event, 8)
    copies = event("copies between gradients and buckets", 200)
    given = given.with_rows([*given.rows(HostEvents), copies])
    finding = next(com010.reduction_per_micro_batch.find(given))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (450, 150, 600)


# Costly forms ---------------------------------------------------------------------------------------------------------

WIDE, SPREAD = "128,1024,64", "128,1,64;1,1024,64;"


def forms(measures: Make, blind: Make, *rows: tuple[str, str, int]) -> JobMeasures:
    made = [operator(name, "elementwise", ns, **{**PLAIN, "shapes": shapes}) for name, shapes, ns in rows]
    found: JobMeasures = measures([blind()], *computing(*made))
    return found


DIFFERENCES = (
    ("aten::sub", SPREAD, 100), ("aten::pow", f"{WIDE};", 150), ("aten::sum", f"{WIDE};;;", 50),
    ("aten::mul", f"{WIDE};{WIDE}", 200),
)  # fmt: skip


def test_distances_by_all_differences_cost_all_that_runs_on_the_differences(measures: Make, blind: Make) -> None:
    found = only(cmp034.costly_form, forms(measures, blind, *DIFFERENCES, ("aten::mm", "64,64;64,64", 40)))
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
    measures: Make, blind: Make, rows: Sequence[tuple[str, str, int]]
) -> None:
    silent(cmp034.costly_form, forms(measures, blind, *rows))


def test_one_hot_vectors_cost_their_zeros_casts_and_products(measures: Make, blind: Make) -> None:
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
    found = only(cmp034.costly_form, measures([blind()], *computing(ones, *others)))
    assert (found.cost_ns, found.fault, found.state) == (320, Fault.ONE_HOT_PRODUCTS, "preview")
    silent(cmp034.costly_form, measures([blind()], *computing(ones)))


@pytest.mark.parametrize(
    ("name", "cause"),
    [("aten::_linalg_svd", Fault.DECOMPOSITIONS), ("aten::sort", Fault.WHOLE_SORTS),
     ("aten::im2col", Fault.UNFOLDED_WINDOWS)],
)  # fmt: skip
def test_forms_that_their_operator_tells_cost_its_time(measures: Make, blind: Make, name: str, cause: Fault) -> None:
    found = only(cmp034.costly_form, forms(measures, blind, (name, "64,64;", 300)))
    assert (found.cost_ns, found.fault, found.state) == (300, cause, "preview")
    silent(cmp034.costly_form, forms(measures, blind, (name, "64,64;", 30)))


def test_starts_of_workers_in_the_steps_before_count_though_the_capture_holds_none(
    measures: Make, blind: Make, fetches: Make
) -> None:
    row = fetches("workers", 10, epochs=0, epoch_ns=0)
    before = earlier()
    found = only(io003.workers_anew, measures([blind()], row, replace(before, start_ns=300, starts=5)))
    assert (found.cost_ns, found.state, found.gain.before) == (300, "stable", True)
    assert silent(io003.workers_anew, measures([blind()], row, replace(before, start_ns=40, starts=1)))


def test_waits_for_workers_that_were_started_are_no_waits_for_slow_ones(
    measures: Make, blind: Make, fetches: Make
) -> None:
    before = earlier(data_ns=320)
    row = fetches("workers", 10, epochs=0, epoch_ns=0)
    assert only(io002.slow_workers, measures([blind()], row, before)).cost_ns == 320
    started = replace(before, start_ns=300, starts=1)
    assert silent(io002.slow_workers, measures([blind()], row, started))
    # Nor are the cores that they take by starting.
    mostly = replace(before, start_ns=200, starts=1, delay_ns=300, cpu_ns=400)
    assert only(io002.slow_workers, measures([blind()], row, mostly)).cost_ns == 120


# Another thread -----------------------------------------------------------------------------------------------------

THREAD = ThreadRuns(rank=0, name="Thread-1 (produce)", cpu_ns=60, wall_ns=100, line="train.py:40 `produce`", waits=0.0)


@pytest.mark.parametrize(("cpu_ns", "waits", "cost"), [(700, 0.0, 300), (200, 0.0, 600), (700, 0.2, None)])
def test_a_thread_on_a_core_costs_what_the_step_stands_still_meanwhile_and_waits_for_nobody(
    measures: Make, blind: Make, cpu_ns: int, waits: float, cost: int | None
) -> None:
    before = earlier()
    made = measures([blind()], replace(before, cpu_ns=cpu_ns), replace(THREAD, waits=waits))
    if cost is None:
        assert silent(cpu015.thread_beside, made)
        return
    found = only(cpu015.thread_beside, made)
    assert (found.cost_ns, found.gain.low_ns, found.gain.high_ns) == (cost, 0, cost)
    assert found.lines == ("train.py:40 `produce`",)
    assert "Thread `Thread-1 (produce)` runs beside the training loop" in say(found.message)


def test_without_counters_of_the_steps_before_a_thread_is_no_finding(measures: Make, blind: Make) -> None:
    assert silent(cpu015.thread_beside, measures([blind()], THREAD))


def test_a_thread_that_waits_for_a_core_names_the_full_cores(measures: Make, blind: Make, split: Make) -> None:
    finding = only(cpu008.full_cores, measures([blind()], earlier(delay_ns=300, step_ns=2_000)))
    assert (finding.cost_ns, finding.share, finding.gain.before) == (150, 0.15, True)
    assert finding.message.identifier == "cpu008.waits"
    assert (finding.fault, Leaf.MATRIX_PRODUCT in finding.explains) == (Fault.CORES_FULL, True)
    assert not [*cpu008.full_cores.find(measures([blind()], earlier(delay_ns=90)))]
    # Beside a device the host may wait without any loss.
    assert not [*cpu008.full_cores.find(measures([split()], earlier(delay_ns=300)))]
