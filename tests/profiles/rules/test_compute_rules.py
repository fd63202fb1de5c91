"""Rules about compute: each fires beyond its limits, stays silent at them, and names what costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.rows import CHIP, computing, only, operator, silent, step_compute

from hermes.base.say import say
from hermes.knowledge.vendor_cures import fused_form_do
from hermes.model.job import JobMeasures
from hermes.model.step_measures import PeerWait, StepSplit
from hermes.model.tensor_measures import MixedLayouts
from hermes.profiles.rules.compute import cmp003_ai_cpu as cmp003
from hermes.profiles.rules.compute import cmp007_unaligned_shapes as cmp007
from hermes.profiles.rules.compute import cmp009_wide_floats as cmp009
from hermes.profiles.rules.compute import cmp012_optimizer_loops as cmp012
from hermes.profiles.rules.compute.cmp001_idle_units import idle_cores as cmp010
from hermes.profiles.rules.compute.cmp001_idle_units import slow_products as cmp001
from hermes.profiles.rules.compute.cmp002_unfused import elementwise_kernels as cmp002
from hermes.profiles.rules.compute.cmp002_unfused import layers_of_many_kernels as cmp013
from hermes.profiles.rules.compute.cmp004_layout import casts as cmp005
from hermes.profiles.rules.compute.cmp004_layout import formats as cmp004
from hermes.profiles.rules.compute.cmp004_layout import transposed_copies as cmp006
from hermes.profiles.rules.compute.cmp011_slow_device import low_clock as cmp008
from hermes.profiles.rules.compute.cmp011_slow_device import slow_operators as cmp011
from hermes.profiles.rules.rule import Finder

Make = Callable[..., JobMeasures]
Split = Callable[..., StepSplit]
Wait = Callable[..., PeerWait]
HEADS = "1,4,512,16"


def having(given: JobMeasures, *rows: object) -> JobMeasures:
    """The same with these rows of compute."""
    return given.with_rows(computing(*rows))


@pytest.fixture
def one(measures: Make, split: Split) -> JobMeasures:
    """One rank of an Ascend job and one step of 1000 ns, all of it compute."""
    return measures([split()], vendors={0: "ascend"})


# Shares of steps: AI CPU, formats, casts, transpositions -----------------------------------------------------------

SHARES = pytest.mark.parametrize(
    ("rule", "part", "kind", "limit"),
    [
        (cmp003.ai_cpu, "ai_cpu_ns", "indexing", 10),
        (cmp004.format_conversion, "conversion_ns", "format conversion", 30),
        (cmp005.casts, "cast_ns", "cast", 50),
        (cmp006.transposed_copies, "transpose_ns", "transpose", 50),
    ],
    ids=["AI CPU", "formats", "casts", "copies"],
)


@SHARES
def test_a_part_of_the_kernels_beyond_its_limit_is_found(
    rule: Finder, part: str, kind: str, limit: int, one: JobMeasures
) -> None:
    ns = limit + 1
    row = operator("Thing", kind, ns, ai_cpu_ns=ns)
    finding = only(rule, having(one, row, operator("MatMul", "matmul", 1), step_compute(**{part: ns})))
    assert (finding.cost_ns, finding.ranks, finding.blames) == (ns, (0,), ("Thing",))
    assert finding.share == pytest.approx(ns / 1_000)
    assert finding.replay == ("op:Thing=0",)


@SHARES
def test_a_part_of_the_kernels_at_its_limit_is_no_finding(
    rule: Finder, part: str, kind: str, limit: int, one: JobMeasures
) -> None:
    assert silent(rule, having(one, operator("Thing", kind, limit), step_compute(**{part: limit})))


@SHARES
def test_a_large_part_of_few_kernels_is_noise(
    rule: Finder, part: str, kind: str, limit: int, measures: Make, split: Split
) -> None:
    # Half of the kernels' time, but a hundredth of the window.
    quiet = measures([split(free=980)], vendors={0: "ascend"})
    assert silent(rule, having(quiet, operator("T", kind, 10), step_compute(kernels=20, **{part: 10})))


def test_formats_that_a_library_changes_inside_an_operator_count_by_their_own_time(one: JobMeasures) -> None:
    conv = operator("aten::conv", "convolution", 400, layout=100)
    casts = operator("Cast", "cast", 300)
    finding = only(cmp004.format_conversion, having(one, conv, casts, step_compute(conversion_ns=100)))
    assert (finding.blames, finding.replay) == (("aten::conv",), ("op:aten::conv=0.75",))


def test_a_name_with_the_signs_of_a_pattern_is_replayed_as_itself(one: JobMeasures) -> None:
    finding = only(cmp005.casts, having(one, operator("cast(a[3]*)", "cast", 90), step_compute(cast_ns=90)))
    assert finding.replay == ("op:cast(a[[]3][*])=0",)


def test_a_kernel_without_an_operator_is_not_replayed_since_others_share_its_symbol(one: JobMeasures) -> None:
    rows = [operator("void copy<int>(int*)", "cast", 60), operator("aten::to", "cast", 30)]
    finding = only(cmp005.casts, having(one, *rows, step_compute(cast_ns=90)))
    assert finding.replay == ("op:aten::to=0",)


def mixed(beyond: int) -> MixedLayouts:
    shapes = "4,64,32,32;4,64,32,32"
    return MixedLayouts(rank=0, operator="aten::mul", shapes=shapes, steps=1, calls=3, ns=200, beyond_ns=beyond)


def test_operators_whose_inputs_lie_in_different_orders_cost_beside_copies(one: JobMeasures) -> None:
    given = having(one, operator("aten::contiguous", "transpose", 60), step_compute(transpose_ns=60))
    finding = only(cmp006.transposed_copies, given.with_rows([mixed(90), mixed(0)]))
    assert (finding.cost_ns, finding.blames) == (150, ("aten::contiguous", "aten::mul"))
    assert finding.evidence[-1].value == 90
    assert "different memory orders" in say(finding.message)


def test_inputs_in_different_orders_that_take_little_are_no_finding(one: JobMeasures) -> None:
    given = having(one, operator("aten::mul", "elementwise", 900), step_compute())
    assert silent(cmp006.transposed_copies, given.with_rows([mixed(50)]))


# Roofs -------------------------------------------------------------------------------------------------------------


def test_products_far_below_their_roof_are_found_with_what_they_lose(one: JobMeasures) -> None:
    finding = only(cmp001.below_roof, having(one, operator("MatMul", "matmul", 800, roof_share=0.4)))
    # At 80 % of the roof they would take half as long.
    assert (finding.cost_ns, finding.blames, finding.replay) == (400, ("MatMul",), ())


def test_products_near_enough_to_their_roof_are_no_finding(one: JobMeasures) -> None:
    assert silent(cmp001.below_roof, having(one, operator("MatMul", "matmul", 800, roof_share=0.61)))


def test_counters_of_the_pipes_come_before_the_roof(one: JobMeasures) -> None:
    busy = operator("MatMul", "matmul", 800, roof_share=0.2, pipe=80, blocks=0)
    assert silent(cmp001.below_roof, having(one, busy))
    idle = operator("MatMul", "matmul", 800, roof_share=0.7, pipe=300, blocks=100)
    assert only(cmp001.below_roof, having(one, idle)).cost_ns == 400


def test_what_no_roof_tells_is_no_loss(one: JobMeasures) -> None:
    assert silent(cmp001.below_roof, having(one, operator("MatMul", "matmul", 800)))
    assert silent(cmp001.below_roof, having(one, operator("Add", "elementwise", 800, roof_share=0.1)))


def test_the_peak_of_an_amd_chip_is_not_expected(measures: Make, split: Split) -> None:
    rows = computing(operator("mm", "matmul", 800, roof_share=0.45))
    assert silent(cmp001.below_roof, measures([split()], *rows, vendors={0: "amd"}))
    assert only(cmp001.below_roof, measures([split()], *rows, vendors={0: "nvidia"})).cost_ns == 350


def test_operators_outside_of_steps_are_not_counted_in_them(one: JobMeasures) -> None:
    row = operator("MatMul", "matmul", 1_600, roof_share=0.4)
    assert only(cmp001.below_roof, having(one, row, step_compute(kernels=800))).cost_ns == 400


def test_elementwise_kernels_are_found_and_half_of_them_could_be_won(one: JobMeasures) -> None:
    rows = [operator("Add", "elementwise", 90), operator("ReduceSum", "reduction", 20)]
    finding = only(cmp002.unfused, having(one, *rows, operator("MatMul", "matmul", 890)))
    assert (finding.cost_ns, finding.gain.high_ns) == (110, 55)
    assert finding.replay == ("op:Add=0.5", "op:ReduceSum=0.5")


def test_few_elementwise_kernels_or_fused_norms_are_no_finding(one: JobMeasures) -> None:
    rows = [operator("Add", "elementwise", 100), operator("LayerNorm", "normalisation", 500)]
    assert silent(cmp002.unfused, having(one, *rows, operator("MatMul", "matmul", 400)))


def test_unaligned_products_are_held_against_aligned_ones(one: JobMeasures) -> None:
    rows = [
        operator("MatMul", "matmul", 400, aligned=True, roof_share=0.8),
        operator("MatMul", "matmul", 400, aligned=False, roof_share=0.4, shapes="7,13;13,9"),
    ]
    finding = only(cmp007.unaligned_shapes, having(one, *rows))
    assert (finding.cost_ns, finding.blames) == (200, ("7,13;13,9",))
    assert finding.replay == ("op:MatMul=0.75",)


def test_unaligned_products_as_fast_as_aligned_ones_are_no_finding(one: JobMeasures) -> None:
    rows = [operator("MatMul", "matmul", 400, aligned=aligned, roof_share=0.4) for aligned in (True, False)]
    assert silent(cmp007.unaligned_shapes, having(one, *rows))


def test_without_aligned_products_less_is_said_of_unaligned_ones(one: JobMeasures) -> None:
    alone = having(one, operator("MatMul", "matmul", 400, aligned=False, roof_share=0.25))
    finding = only(cmp007.unaligned_shapes, alone)
    assert (finding.cost_ns, finding.confidence, finding.replay) == (200, 0.4, ())


def test_float32_products_are_found_where_the_chip_has_a_faster_type(one: JobMeasures) -> None:
    row = operator("mm", "matmul", 800, precision="fp32", flops=16_000, bytes=1, roof_share=0.5)
    finding = only(cmp009.wide_floats, having(one, row, CHIP))
    # From 2 to 16 TFLOP/s: an eighth of the time is left.
    assert finding.cost_ns == 700
    assert "fp32" in say(finding.message)


def test_bytes_that_must_be_moved_limit_what_a_faster_type_wins(one: JobMeasures) -> None:
    row = operator("mm", "matmul", 800, precision="fp32", flops=16_000, bytes=4_000, roof_share=0.5)
    assert only(cmp009.wide_floats, having(one, row, CHIP)).cost_ns == 400


@pytest.mark.parametrize(("precision", "cost"), [("fp32", 400), ("tf32", None), ("", None)])
def test_kernels_tell_float32_where_the_chip_is_not_known(
    precision: str, cost: int | None, measures: Make, split: Split
) -> None:
    row = replace(operator("mm", "matmul", 800, precision=precision), chip=None)
    stranger = replace(CHIP, chip=None, matrix={}, bandwidth=None)
    assert silent(cmp009.wide_floats, measures([split()], *computing(row, stranger), vendors={0: "amd"}))
    made = measures([split()], *computing(row, stranger), vendors={0: "nvidia"})
    assert (only(cmp009.wide_floats, made).cost_ns if cost else silent(cmp009.wide_floats, made)) == (cost or True)


def test_a_short_type_that_is_no_faster_on_a_chip_is_passed_over(one: JobMeasures) -> None:
    # Graphics cards compute as much in TF32 as in float32, and twice as much in 16 bits.
    row = operator("mm", "matmul", 800, precision="fp32", flops=16_000, bytes=1, roof_share=0.5)
    card = replace(CHIP, matrix={"fp32": 2e12, "tf32": 2e12, "bf16": 4e12})
    assert only(cmp009.wide_floats, having(one, row, card)).cost_ns == 400


@pytest.mark.parametrize("precision", ["bf16", "tf32", ""])
def test_products_in_fast_types_are_no_finding(precision: str, one: JobMeasures) -> None:
    row = operator("mm", "matmul", 800, precision=precision, flops=16_000, bytes=1, roof_share=0.5)
    assert silent(cmp009.wide_floats, having(one, row, CHIP))


def test_float32_on_a_chip_that_has_nothing_faster_is_no_finding(one: JobMeasures) -> None:
    row = operator("mm", "matmul", 800, precision="fp32", flops=16_000, bytes=1, roof_share=0.5)
    assert silent(cmp009.wide_floats, having(one, row, replace(CHIP, matrix={"fp32": 2e12})))


def test_idle_cores_and_pipes_of_other_kernels_than_products_are_found(one: JobMeasures) -> None:
    finding = only(cmp010.idle_cores, having(one, operator("Slice", "copy", 1_000, blocks=80, pipe=40)))
    assert (finding.cost_ns, finding.blames) == (120, ("Slice",))


def test_idle_cores_up_to_a_tenth_are_no_finding(one: JobMeasures) -> None:
    assert silent(cmp010.idle_cores, having(one, operator("Slice", "copy", 1_000, blocks=60, pipe=40)))
    assert silent(cmp010.idle_cores, having(one, operator("MatMul", "matmul", 1_000, blocks=600, pipe=40)))


def test_foreach_operations_of_an_optimizer_are_found_and_half_could_be_won(
    one: JobMeasures, measures: Make, split: Split
) -> None:
    rows = [operator("ForeachAddList", "optimizer", 60), operator("ForeachNorm", "optimizer", 300)]
    finding = only(cmp012.optimizer_loops, having(one, *rows, operator("MatMul", "matmul", 640)))
    assert (finding.cost_ns, finding.gain.high_ns, finding.replay) == (60, 30, ("op:ForeachAddList=0.5",))
    assert finding.actions[0].do == fused_form_do(name="SGD")
    roots = computing(operator("aten::_foreach_sqrt", "optimizer", 500), operator("mm", "matmul", 500))
    cuda = only(cmp012.optimizer_loops, measures([split()], *roots, vendors={0: "nvidia"}))
    assert cuda.actions[0].do == cmp012.use_fused_do(name="AdamW")


def test_a_short_or_fused_optimizer_is_no_finding(one: JobMeasures) -> None:
    rows = [operator("ForeachAddList", "optimizer", 50), operator("aten::_fused_adamw_", "optimizer", 300)]
    assert silent(cmp012.optimizer_loops, having(one, *rows, operator("MatMul", "matmul", 650)))


def test_a_layer_of_parts_is_found_and_named(one: JobMeasures) -> None:
    rows = [
        operator("aten::silu", "elementwise", 60, shapes="8,8"),
        operator("aten::mul", "elementwise", 80, shapes="8,8;8,8"),
        operator("aten::mul", "elementwise", 120, shapes="9,9;9,9"),
    ]
    finding = only(cmp013.decomposed_layer, having(one, *rows, operator("mm", "matmul", 740)))
    # The longer of both stays.
    assert finding.cost_ns == 60
    assert say(finding.message).startswith("SwiGLU made of separate operators costs 6%")
    assert {say(action.title) for action in finding.actions} == {"Use the fused SwiGLU"}
    assert [action.cases for action in finding.actions] == 2 * [("CMP-19",)]


def test_parts_that_make_no_layer_or_save_little_are_no_finding(one: JobMeasures) -> None:
    mul = operator("aten::mul", "elementwise", 80, shapes="8,8;8,8")
    assert silent(cmp013.decomposed_layer, having(one, mul, operator("mm", "matmul", 920)))
    small = operator("aten::silu", "elementwise", 30, shapes="8,8")
    assert silent(cmp013.decomposed_layer, having(one, mul, small, operator("mm", "matmul", 890)))


# One rank ----------------------------------------------------------------------------------------------------------


ASCEND = dict.fromkeys(range(3), "ascend")


def ranks(measures: Make, split: Split, late: int, waits: tuple[PeerWait, ...] = (), **parts: Any) -> JobMeasures:
    """Three ranks, of which the first takes longer than its peers by so much."""
    steps = [step_compute(0, over_peers_ns=late, **parts), *(step_compute(rank, over_peers_ns=0) for rank in (1, 2))]
    row = operator("MatMul", "matmul", 3_000, ranks=(0, 1, 2))
    return measures([split(rank) for rank in range(3)], row, *steps, *waits, vendors=ASCEND)


def test_a_rank_that_takes_longer_for_equal_operators_is_blamed(measures: Make, split: Split, wait: Wait) -> None:
    finding = only(cmp011.slow_operators, ranks(measures, split, 200, (wait(1, 0, 200, collected=True),)))
    assert (finding.cost_ns, finding.blames, finding.apart) == (200, ("rank 0",), False)
    assert finding.replay == ("compute:0=0.8",)
    assert "25%" in say(finding.message)


def test_a_rank_that_nobody_waits_for_is_a_finding_of_its_own(measures: Make, split: Split) -> None:
    assert only(cmp011.slow_operators, ranks(measures, split, 200)).apart


def test_ranks_that_differ_by_little_are_alike(measures: Make, split: Split) -> None:
    assert silent(cmp011.slow_operators, ranks(measures, split, 30))


def test_a_slow_device_in_a_step_that_hardly_computes_is_noise(measures: Make, split: Split) -> None:
    steps = [step_compute(0, over_peers_ns=200), *(step_compute(rank, over_peers_ns=0) for rank in (1, 2))]
    splits = [split(rank, window=50_000, free=49_000) for rank in range(3)]
    assert silent(cmp011.slow_operators, measures(splits, *steps, vendors=ASCEND))


def test_without_peers_no_rank_is_slow(one: JobMeasures) -> None:
    assert silent(cmp011.slow_operators, having(one, step_compute(over_peers_ns=None)))


def test_a_low_clock_is_the_cause_of_a_slow_device(measures: Make, split: Split) -> None:
    given = ranks(measures, split, 200, frequency=200, mhz=1_200.0)
    finding = only(cmp008.low_clock, given)
    assert (finding.cost_ns, finding.layer, finding.apart) == (200, "environment", False)
    assert finding.replay == ("compute:0=0.8",)
    assert ("mean clock during the rank's kernels", 1_200.0) in [
        (say(part.what), part.value) for part in finding.evidence
    ]


def test_a_clock_that_is_low_everywhere_is_no_part_of_a_slow_rank(one: JobMeasures) -> None:
    assert only(cmp008.low_clock, having(one, step_compute(frequency=100))).apart


def test_a_clock_that_was_not_sampled_or_hardly_fell_is_no_finding(one: JobMeasures) -> None:
    assert silent(cmp008.low_clock, having(one, step_compute(frequency=None)))
    assert silent(cmp008.low_clock, having(one, step_compute(frequency=50)))


# Memory of large tensors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtypes", "calls", "shapes", "cost"),
    [
        ("float;signed char;Scalar", 4, "64,64;64,1", 300),
        ("float;int8", 4, "64,64;64,1", 300),
        # Pictures, as often but of other shapes, and of the same but not as often.
        ("float;unsigned char;Scalar", 4, "64,64;64,1", 200),
        ("float;signed char;Scalar", 4, "64,32;64,1", 200),
        ("float;signed char;Scalar", 5, "64,64;64,1", 200),
    ],
)
def test_what_scales_unpacked_weights_belongs_to_unpacking_them(
    one: JobMeasures, dtypes: str, calls: int, shapes: str, cost: int
) -> None:
    cast = operator("aten::_to_copy", "cast", 200, shapes="64,64;64,64;", dtypes=dtypes, calls=4)
    scaled = operator("aten::mul", "elementwise", 100, shapes=shapes, calls=calls)
    given = having(one, cast, scaled, operator("aten::mm", "matmul", 500), step_compute(cast_ns=200))
    finding = only(cmp005.casts, given)
    assert (finding.cost_ns, finding.gain.high_ns) == (cost, cost)
    assert (say(finding.actions[0].title) == "Unpack weights that do not learn once") is (cost == 300)


@pytest.mark.parametrize(
    ("dtypes", "elsewhere", "ns", "told"),
    [
        ("float;double;Scalar", "float;float", 200, True),
        # The step computes in it; a number of Python's; another cast takes longer; to a wider type.
        ("float;double;Scalar", "double;float", 200, False),
        ("float;Scalar;Scalar", "float;float", 200, False),
        ("float;double;Scalar", "float;float", 50, False),
        ("double;float;Scalar", "float;float", 200, False),
    ],
)
def test_doubles_that_no_operator_made_came_with_the_batch(
    one: JobMeasures, dtypes: str, elsewhere: str, ns: int, *, told: bool
) -> None:
    cast = operator("aten::_to_copy", "cast", ns, shapes="64,64;64,64;", dtypes=dtypes)
    other = operator("aten::_to_copy", "cast", 100, shapes="8,8;8,8;", dtypes="float;c10::Half;Scalar")
    work = operator("aten::mul", "elementwise", 500, shapes="64,64;64,64", dtypes=elsewhere)
    finding = only(cmp005.casts, having(one, cast, other, work, step_compute(cast_ns=200)))
    assert (say(finding.actions[0].title) == "Hand over the type that the step computes in") is told
