"""Rules that tell by shapes alone what a few small operators would do as well as a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.rows import computing, only, operator, silent

from hermes.analyze.host_measures import Before, HostSide
from hermes.analyze.tensor_measures import RankShape
from hermes.diagnose.rule import Measures
from hermes.diagnose.rules import cmp018, cmp019, cmp020

Make = Callable[..., Any]
PLAIN = {"chip": None, "dtypes": "float;float", "precision": "fp32"}

Row = tuple[str, str, str, int]


@pytest.fixture
def shaped(measures: Make, blind: Make) -> Make:
    """A step of a millisecond without a device, with rows of operators: name, kind, shapes, nanoseconds."""

    def make(*rows: Row, **host: Any) -> Measures:
        made = [operator(name, kind, ns, **PLAIN, shapes=shapes) for name, kind, shapes, ns in rows]
        found: Measures = measures([blind(host=1_000_000)], host=HostSide(**host))
        return replace(found, compute=computing(*made))

    return make


# Tensors grown by joining ------------------------------------------------------------------------------------------

REST = ("aten::mm", "matmul", "16,128;128,128", 400_000)
QUEUE = ("aten::cat", "copy", "71984,128;16,128;", 600_000)


def before(**given: Any) -> Before:
    values: dict[str, Any] = {
        "rank": 0, "steps": 60, "step_ns": 10_000_000, "gc_ns": 0, "data_ns": None, "data_cpu_ns": None, "save_ns": 0,
        "optimizer_ns": 0, "minor_faults": 9_100, "fault_ns": 500, "captured_faults": 0, "spread_ns": None, "calls": 50,
    } | given  # fmt: skip
    return Before(**values)


def test_a_queue_that_is_joined_anew_could_be_written_in_place(shaped: Make) -> None:
    finding = only(cmp018.RULE, shaped(QUEUE, REST))
    assert (finding.cost_ns, finding.gain.high_ns, finding.calls) == (600_000, 594_000, 1.0)
    # 16 of 72,000 rows twice, and a call as 32,768 of 9,216,000 numbers.
    assert finding.gain.low_ns == pytest.approx(600_000 * 0.99)
    assert (finding.blames, finding.within) == (("aten::cat",), "")
    assert "72000 x 128" in finding.title


def test_pages_of_the_new_tensor_count_as_part_of_the_join(shaped: Make) -> None:
    finding = only(cmp018.RULE, shaped(QUEUE, REST, before=(before(),)))
    # 9,000 pages of half a microsecond each, of a step of ten milliseconds; they are not in the captured step.
    assert finding.cost_ns == 600_000 + 4_500_000
    assert finding.share == pytest.approx(0.51)
    assert (finding.calls, finding.within) == (0.0, "MEM006")


def test_pages_that_the_captured_join_touched_count_once(shaped: Make) -> None:
    finding = only(cmp018.RULE, shaped(QUEUE, REST, before=(before(captured_faults=1_000),)))
    assert finding.cost_ns == 600_000 - 500_000 + 4_500_000
    # More faults than the join can hold are those of others, too.
    assert only(cmp018.RULE, shaped(QUEUE, REST, before=(before(captured_faults=9_000),))).cost_ns == 4_560_000


@pytest.mark.parametrize("counts", [{"minor_faults": 5_000}, {"captured_faults": None}, {"fault_ns": None}])
def test_without_as_many_faults_a_join_costs_what_it_took(shaped: Make, counts: dict[str, Any]) -> None:
    finding = only(cmp018.RULE, shaped(QUEUE, REST, before=(before(**counts),)))
    assert (finding.cost_ns, finding.within) == (600_000, "")


def test_a_cache_that_grows_counts_with_all_of_its_lengths(shaped: Make) -> None:
    rows = [("aten::cat", "copy", f"4,8,{length},64;4,8,1,64;", 40_000) for length in range(500, 505)]
    assert only(cmp018.RULE, shaped(*rows, ("aten::bmm", "batched matmul", "8,8,8;8,8,8", 800_000))).cost_ns == 200_000


def test_joins_on_a_device_count_by_their_kernels(measures: Make, split: Make) -> None:
    made = [operator("ConcatD", "copy", 600, shapes="71984,128;16,128"), operator("MatMulV2", "matmul", 400)]
    found = measures([split()], host=HostSide(before=(before(),)), vendors={0: "ascend"})
    assert only(cmp018.RULE, replace(found, compute=computing(*made))).cost_ns == 600


@pytest.mark.parametrize(
    "shapes",
    [
        "36000,128;36000,128;",  # halves, as of a U-Net
        "64000,128;8000,128;",  # an eighth is new
        "2000,128;16,128;",  # small
        "9216000;;",  # one tensor
        "71984,128;16,64;",  # no join at all
        "",
    ],
)
def test_joins_of_much_or_of_little_are_no_finding(shaped: Make, shapes: str) -> None:
    assert silent(cmp018.RULE, shaped(("aten::cat", "copy", shapes, 600_000), REST))


def test_a_join_that_gradients_flow_through_or_that_turns_round_is_no_finding(shaped: Make) -> None:
    tokens = ("aten::cat", "copy", "64,1,768;64,196,768;", 600_000)
    assert only(cmp018.RULE, shaped(tokens, REST))
    assert silent(cmp018.RULE, shaped(tokens, REST, kept_joins=(RankShape(rank=0, shape="64,197,768"),)))
    assert only(cmp018.RULE, shaped(tokens, REST, kept_joins=(RankShape(rank=1, shape="64,197,768"),)))


def test_a_join_that_takes_little_of_the_step_is_no_finding(shaped: Make) -> None:
    assert silent(cmp018.RULE, shaped((*QUEUE[:3], 50_000), REST))
    assert silent(cmp018.RULE, shaped(("aten::stack", *QUEUE[1:]), REST))


# Pairs that are spread out -----------------------------------------------------------------------------------------

PAIRS = "112,128,64"
SQUARES: tuple[Row, ...] = (
    ("aten::sub", "elementwise", "112,1,64;1,128,64;", 100_000),
    ("aten::pow", "elementwise", f"{PAIRS};", 200_000),
    ("aten::sum", "reduction", f"{PAIRS};;;", 100_000),
    ("aten::neg", "elementwise", PAIRS, 100_000),
    ("aten::copy_", "copy", f"{PAIRS};{PAIRS};", 100_000),
    ("aten::expand", "other", "112,128,1;;", 50_000),
    ("aten::exp", "elementwise", "112,128", 50_000),
    ("aten::mm", "matmul", "112,64;64,64", 300_000),
)


def test_squares_of_differences_of_pairs_could_be_a_product(shaped: Make) -> None:
    finding = only(cmp019.RULE, shaped(*SQUARES))
    assert (finding.cost_ns, finding.gain.high_ns, finding.within) == (600_000, 594_000, "CMP002")
    # The product costs at most as much as 131,072 of 917,504 numbers.
    assert finding.gain.low_ns == pytest.approx(600_000 * 6 / 7, abs=1)
    assert finding.blames == ("aten::pow", "aten::copy_", "aten::neg")
    assert "112 x 128 rows of 64 numbers" in finding.title


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [
        ("112,1,64;128,64;", PAIRS),  # y has no axis of its own
        ("1,128,64;112,1,64;", PAIRS),
        ("4,112,1,64;4,1,128,64;", f"4,{PAIRS}"),
        ("4,112,1,64;128,64;", f"4,{PAIRS}"),
    ],
)
def test_pairs_are_told_however_they_are_broadcast(shaped: Make, rows: str, pairs: str) -> None:
    numbers = pairs.rpartition(",")[0]
    made = [
        ("aten::mul", "elementwise", rows, 300_000),
        ("aten::sum", "reduction", f"{pairs};;;", 300_000),
        ("aten::_softmax", "softmax", f"{numbers};;", 400_000),
    ]
    assert only(cmp019.RULE, shaped(*made)).cost_ns == 600_000


def test_pairs_that_were_expanded_before_are_told_by_the_calls_that_did(shaped: Make) -> None:
    made = (
        ("aten::div", "elementwise", f"{PAIRS};112,128,1", 300_000),
        ("aten::mul", "elementwise", f"{PAIRS};{PAIRS}", 200_000),
        ("aten::sum", "reduction", f"{PAIRS};;;", 100_000),
        ("aten::div", "elementwise", "112,128;", 400_000),
    )
    assert silent(cmp019.RULE, shaped(*made))
    assert only(cmp019.RULE, shaped(*made, spread=(RankShape(rank=0, shape=PAIRS),))).cost_ns == 600_000


def test_kernels_of_pairs_count_on_devices_too(measures: Make, split: Make) -> None:
    rows = (
        ("Sub", "elementwise", "112,1,64;1,128,64", 300),
        ("Square", "elementwise", PAIRS, 200),
        ("ReduceSumD", "reduction", PAIRS, 100),
        ("Exp", "elementwise", "112,128", 400),
    )
    made = [operator(name, kind, ns, shapes=shapes) for name, kind, shapes, ns in rows]
    found = measures([split()], vendors={0: "ascend"})
    assert only(cmp019.RULE, replace(found, compute=computing(*made))).cost_ns == 600


@pytest.mark.parametrize(
    "more",
    [
        ("aten::tanh", "elementwise", PAIRS, 10_000),  # additive attention
        ("aten::abs", "elementwise", PAIRS, 10_000),  # no product is a sum of absolute values
        ("aten::amax", "reduction", f"{PAIRS};;", 10_000),
        ("aten::_softmax", "softmax", f"{PAIRS};;", 10_000),
        ("aten::addmm", "matmul", "64;14336,64;64,64;;", 10_000),  # a layer reads each pair
        ("aten::index", "indexing", f"{PAIRS};128", 10_000),
    ],
)
def test_pairs_that_go_on_by_themselves_are_no_finding(shaped: Make, more: Row) -> None:
    assert silent(cmp019.RULE, shaped(*SQUARES, more))


@pytest.mark.parametrize("left_out", ["aten::sub", "aten::sum", "aten::exp"])
def test_pairs_that_are_not_reduced_to_one_number_each_are_no_finding(shaped: Make, left_out: str) -> None:
    # Without the exponential and the expanded gradient nothing has one number of each pair.
    kept = [row for row in SQUARES if row[0] not in (left_out, "aten::expand")]
    assert silent(cmp019.RULE, shaped(*kept))


@pytest.mark.parametrize(
    ("rows", "made"),
    [
        ("64,8,256,256;64,1,1,256;", "64,8,256,256"),  # a mask over keys
        ("64,1,1,256;1,1,256,256;", "64,1,256,256"),  # masks of two kinds
        ("64,1,512;64,256,512;", "64,256,512"),  # a token beside all
        ("64,256,512;1,256,512;", "64,256,512"),  # places
        ("4096,1,64;1,4,64;", "4096,4,64"),  # few on one side
        ("64,1024,512;512;", "64,1024,512"),  # a weight
        ("112,128,1;1,128,64;", PAIRS),
        ("1120,1,1;1,8192,1;", "1120,8192,1"),  # no third axis to reduce
        ("112,1,16;1,128,16;", "112,128,16"),  # small
        ("1120,1;1,1280;", "1120,1280"),
    ],
)
def test_other_broadcasts_are_no_finding(shaped: Make, rows: str, made: str) -> None:
    calls = (
        ("aten::mul", "elementwise", rows, 300_000),
        ("aten::sum", "reduction", f"{made};;;", 300_000),
        ("aten::exp", "elementwise", made.rpartition(",")[0], 300_000),
    )
    assert silent(cmp019.RULE, shaped(*calls))


def test_sums_of_rows_spread_nothing_that_a_product_would_do(shaped: Make) -> None:
    assert silent(cmp019.RULE, shaped(("aten::add", *SQUARES[0][1:]), *SQUARES[1:]))


def test_pairs_that_take_little_of_the_step_are_no_finding(shaped: Make) -> None:
    rows = [(name, kind, shapes, ns // 20) for name, kind, shapes, ns in SQUARES[:5]]
    assert silent(cmp019.RULE, shaped(*rows, *SQUARES[5:]))


# Causal masks that are made as tensors -----------------------------------------------------------------------------

HEADS = "1,4,512,16"
MASK = "1,4,512,512"
FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"
FIRST = f"{HEADS};{HEADS};{HEADS}"


def masked(mask: str, made: str = "") -> tuple[Row, ...]:
    """A layer that makes a mask and reads it, of a tenth and half of a millisecond."""
    made = made or mask
    return (
        ("aten::fill_", "elementwise", f"{made};", 30_000),
        ("aten::triu", "elementwise", f"{made};", 70_000),
        (FORWARD, "attention", f"{FIRST};;;{mask};", 100_000),
        (f"{FORWARD}_backward", "attention backward", f"{HEADS};{FIRST};{HEADS};1,4,512;;;{mask};", 300_000),
        REST,
    )


def test_a_mask_that_is_made_for_each_head_could_be_a_word(shaped: Make) -> None:
    finding = only(cmp020.RULE, shaped(*masked(MASK)))
    # All that makes it, and what reading it is of attention; at least seven tenths of the former.
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (164_000, 70_000, 164_000)
    assert (finding.calls, finding.confidence) == (pytest.approx(2.32), 0.6)
    assert finding.blames[0] == "aten::triu"
    assert "1 x 4 x 512 x 512" in finding.title
    assert finding.actions[0].title == "Say that attention is causal"


def test_of_long_sequences_blocks_that_the_mask_hides_are_won_too(shaped: Make) -> None:
    rows = [(name, kind, shapes.replace("512", "1024"), ns) for name, kind, shapes, ns in masked("512,512")]
    finding = only(cmp020.RULE, shaped(*rows))
    # A quarter: one of four blocks of 512 keys.
    assert (finding.gain.low_ns, finding.gain.high_ns) == (70_000 + 100_000, 100_000 + 164_000)
    rows = [(name, kind, shapes.replace("512", "16384"), ns) for name, kind, shapes, ns in masked("512,512")]
    assert only(cmp020.RULE, shaped(*rows)).gain.high_ns == 100_000 + 200_000


def test_a_small_mask_of_all_heads_is_read_from_caches(shaped: Make) -> None:
    assert only(cmp020.RULE, shaped(*masked("512,512"))).cost_ns == 128_000


def test_a_triangle_may_be_spread_and_converted_on_its_way(shaped: Make) -> None:
    more = (
        ("aten::bitwise_not", "elementwise", "1,1,512,512", 10_000),
        ("aten::where", "elementwise", "512,512;;", 10_000),
        ("aten::copy_", "copy", f"{MASK};512,512;", 10_000),
        ("aten::masked_fill_", "elementwise", "512,512;512,512;", 10_000),
        ("aten::add", "elementwise", "512,512;1;", 10_000),
    )
    assert only(cmp020.RULE, shaped(*masked(MASK, made="512,512"), *more)).cost_ns == 214_000


def test_memory_of_masks_is_theirs(shaped: Make) -> None:
    only_masks = [row for row in masked(MASK) if row != REST and "attention" not in row[1]]
    readers = [(name, kind, shapes.replace("512,16", "8,16"), ns) for name, kind, shapes, ns in masked(MASK)[2:4]]
    assert silent(cmp020.RULE, shaped(*only_masks, *readers))
    # A mask that is filled and one that is cut, of a MB each; an output and three gradients of an eighth each.
    assert only(cmp020.RULE, shaped(*masked(MASK))).fresh == pytest.approx(8 / 8.5625, rel=0.01)


@pytest.mark.parametrize(
    ("forward", "shapes"),
    [
        ("aten::_scaled_dot_product_efficient_attention", f"{FIRST};{MASK};;;;"),
        ("aten::_efficient_attention_forward", f"1,512,4,16;1,512,4,16;1,512,4,16;{MASK};;;;"),
        ("aten::_scaled_dot_product_cudnn_attention", f"{FIRST};{MASK};;;;;"),
        ("aten::_scaled_dot_product_fused_attention_overrideable", f"{FIRST};{MASK};;;;;"),
        ("FlashAttentionScore", f"{FIRST};;;;512,512"),
        ("FlashAttentionScore", "512,1,64;512,1,64;512,1,64;;;;1,1,512,512"),
    ],
)
def test_on_devices_half_of_attention_may_be_won(measures: Make, split: Make, forward: str, shapes: str) -> None:
    ascend = "::" not in forward
    made = [
        operator("Triu" if ascend else "aten::triu", "elementwise", 100, shapes="512,512"),
        operator(forward, "attention", 400, shapes=shapes),
        operator("aten::mm", "matmul", 500, shapes="512,64;64,64"),
    ]
    found = measures([split()], vendors={0: "ascend" if ascend else "nvidia"})
    finding = only(cmp020.RULE, replace(found, compute=computing(*made)))
    assert (finding.cost_ns, finding.gain.low_ns) == (300, 70)
    assert ("sparse_mode=2" in finding.actions[0].do) == ascend


@pytest.mark.parametrize(
    "more",
    [
        ("aten::tril", "elementwise", f"{MASK};", 10_000),  # a window
        ("aten::logical_and", "elementwise", f"{MASK};{MASK}", 10_000),  # two masks
        ("aten::add", "elementwise", f"{MASK};1,1,512,512;", 10_000),  # places, or another mask
        ("aten::masked_fill", "elementwise", f"{MASK};1,1,1,512;", 10_000),  # padding
        ("aten::mul", "elementwise", f"{MASK};4,1,1", 10_000),  # slopes of heads
        ("aten::index_put_", "indexing", f"{MASK};512;;", 10_000),
    ],
)
def test_masks_that_hold_more_than_a_triangle_are_no_finding(shaped: Make, more: Row) -> None:
    assert silent(cmp020.RULE, shaped(*masked(MASK), more))


def test_what_else_has_the_size_of_a_mask_does_not_count(shaped: Make) -> None:
    # Weights of 512 x 512 that an optimizer adds to; as many are filled as masks are.
    weights = (("aten::mm", "matmul", "64,512;512,512", 0), ("aten::add_", "elementwise", "512,512;512,512;", 50_000))
    assert only(cmp020.RULE, shaped(*masked("512,512"), *weights)).cost_ns == 98_000


@pytest.mark.parametrize("left_out", ["aten::triu", FORWARD])
def test_a_mask_that_is_kept_and_a_triangle_that_is_no_mask_are_no_finding(shaped: Make, left_out: str) -> None:
    assert silent(cmp020.RULE, shaped(*(row for row in masked(MASK) if not row[0].startswith(left_out))))


@pytest.mark.parametrize(
    ("mask", "made"),
    [
        ("1,4,512,512", "1,4,1024,1024"),  # a part of a larger one
        ("1,4,512,512", "2,512,512"),
        ("1,1,512,640", "1,1,512,640"),  # with keys of a cache
        ("1,1,1,512", "512,512"),
        ("640,640", "640,640"),  # not as long as queries
        ("", "512,512"),
        ("x", "512,512"),
    ],
)
def test_a_triangle_of_another_shape_is_no_finding(shaped: Make, mask: str, made: str) -> None:
    assert silent(cmp020.RULE, shaped(*masked(mask, made)))


def test_the_compressed_mask_is_no_finding(measures: Make, split: Make) -> None:
    made = [
        operator("Triu", "elementwise", 500, shapes="2048,2048"),
        operator("FlashAttentionScore", "attention", 500, shapes="1,4,2048,16;1,4,2048,16;1,4,2048,16;;;;2048,2048"),
    ]
    found = measures([split()], vendors={0: "ascend"})
    assert silent(cmp020.RULE, replace(found, compute=computing(*made)))


def test_a_mask_that_is_not_made_in_each_step_is_no_finding(shaped: Make) -> None:
    found = shaped(*masked(MASK))
    assert silent(cmp020.RULE, replace(found, steps_of_rank={0: 3}))


def test_a_mask_that_takes_little_of_the_step_is_no_finding(shaped: Make) -> None:
    rows = [(name, kind, shapes, ns // 5) for name, kind, shapes, ns in masked(MASK)[:4]]
    assert silent(cmp020.RULE, shaped(*rows, REST))
    assert silent(cmp020.RULE, shaped(REST))
