"""Rules that tell by shapes alone what a few small operators would do as well as a large one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.profiles.rules.rows import computing, only, operator, silent

from hermes.base.say import say
from hermes.model.host_measures import Before
from hermes.model.job import JobMeasures
from hermes.model.tensor_measures import KeptConcat
from hermes.profiles.rules.lab import cmp018_growing_concat as cmp018

Make = Callable[..., Any]
PLAIN = {"chip": None, "dtypes": "float;float", "precision": "fp32"}

Row = tuple[str, str, str, int]


@pytest.fixture
def shaped(measures: Make, blind: Make) -> Make:
    """A step of a millisecond without a device, with operators by name, kind, shapes and nanoseconds."""

    def make(*rows: Row, joined: str = "", rank: int = 0) -> JobMeasures:
        made = [operator(name, kind, ns, **PLAIN, shapes=shapes) for name, kind, shapes, ns in rows]
        kept = [KeptConcat(rank=rank, shape=joined)] if joined else []
        found: JobMeasures = measures([blind(host=1_000_000)], *computing(*made), *kept)
        return found

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
    finding = only(cmp018.growing_concat, shaped(QUEUE, REST))
    assert (finding.cost_ns, finding.gain.high_ns) == (600_000, 600_000)
    # 16 of 72,000 rows are written twice.
    assert finding.gain.low_ns == round(600_000 * (1 - 2 * 16 / 72_000))
    assert finding.blames == ("aten::cat",)
    assert "72000 x 128" in say(finding.message)


def test_a_cache_that_grows_counts_with_all_of_its_lengths(shaped: Make) -> None:
    rows = [("aten::cat", "copy", f"4,8,{length},64;4,8,1,64;", 40_000) for length in range(500, 505)]
    assert (
        only(cmp018.growing_concat, shaped(*rows, ("aten::bmm", "batched matmul", "8,8,8;8,8,8", 800_000))).cost_ns
        == 200_000
    )


def test_joins_on_a_device_count_by_their_kernels(measures: Make, split: Make) -> None:
    made = [operator("ConcatD", "copy", 600, shapes="71984,128;16,128"), operator("MatMulV2", "matmul", 400)]
    found = measures([split()], before(), *computing(*made), vendors={0: "ascend"})
    assert only(cmp018.growing_concat, found).cost_ns == 600


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
    assert silent(cmp018.growing_concat, shaped(("aten::cat", "copy", shapes, 600_000), REST))


def test_a_join_that_gradients_flow_through_or_that_turns_round_is_no_finding(shaped: Make) -> None:
    tokens = ("aten::cat", "copy", "64,1,768;64,196,768;", 600_000)
    assert only(cmp018.growing_concat, shaped(tokens, REST))
    assert silent(cmp018.growing_concat, shaped(tokens, REST, joined="64,197,768"))
    assert only(cmp018.growing_concat, shaped(tokens, REST, joined="64,197,768", rank=1))


def test_a_join_that_takes_little_of_the_step_is_no_finding(shaped: Make) -> None:
    assert silent(cmp018.growing_concat, shaped((*QUEUE[:3], 50_000), REST))
    assert silent(cmp018.growing_concat, shaped(("aten::stack", *QUEUE[1:]), REST))
