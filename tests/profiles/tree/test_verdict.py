"""What a report says first: the leaf of which most can be won, on which rank and where; else what steps are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from hermes.base.say import say
from hermes.knowledge.recorders import MSPROF
from hermes.model.compute_measures import ChipUsed, Losses, OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.job import Job
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.model.plan import NoiseFloor, Unprofiled
from hermes.model.report import Verdict
from hermes.model.service_measures import Requests
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.bound_gains import CostCertainty, GainBound, within_leaf
from hermes.profiles.advise.rank_findings import rank
from hermes.profiles.tree.attainable_gain import AttainableGain
from hermes.profiles.tree.leaf_kinds import LeafKinds
from hermes.profiles.tree.leaves_of_job import job_tree
from hermes.profiles.tree.long_steps import long_steps
from hermes.profiles.tree.path_of_waits import Lead, PathKey, WaitPath
from hermes.profiles.tree.verdict import VerdictGrounds, verdict
from hermes.profiles.tree.what_limits import WhatLimits

MS = 1_000_000
CHIP = ChipUsed(
    ranks=(0,), recorded="c", chip="c", told_by="name", matrix={"fp32": 20e12, "tf32": 160e12}, bandwidth=2e12,
    cores=20, mhz=1_800, sources={},
)  # fmt: skip


def row(
    leaf: Leaf,
    ms: float,
    what: str = "",
    place: str = "",
    *,
    rank: int = 0,
    awaited: int | None = None,
) -> LeafTime:
    ns = round(ms * MS)
    return LeafTime(
        rank=rank, leaf=leaf, how=How.CALL, what=what, place=place, awaited=awaited, total_ns=ns, step_ns=ns, long_ns=0,
    )  # fmt: skip


def step(ms: float, *, rank: int = 0, device: bool = True, kind: str = "device") -> StepSplit:
    known = 0 if device else None
    return StepSplit(
        rank=rank, step=1, window_kind=kind, start_ns=0, window_ns=round(ms * MS), compute_ns=known, comm_ns=known,
        exposed_comm_ns=known, overlapped_comm_ns=known, copy_ns=known, copy_exposed_ns=known, free_ns=known,
        preparing_ns=None, host_ns=round(ms * MS),
    )  # fmt: skip


def path_of(rows: tuple[LeafTime, ...]) -> WaitPath:
    """The path along the rank that others wait for, else the first: what it spends more is what they wait for."""
    awaited = {one.awaited for one in rows if one.leaf is Leaf.WAIT} & {one.rank for one in rows}
    on = min(awaited, default=0)
    usual, times = Counter[object](), Counter[PathKey]()
    for one in rows:
        if one.rank != on:
            usual[one.leaf] += one.total_ns
    for one in rows:
        if one.rank == on:
            key = (one.leaf, one.how, one.what, one.place)
            more = max(one.total_ns - usual[one.leaf], 0) if awaited else 0
            times[(*key, on)] += more
            times[(*key, one.awaited if one.leaf is Leaf.WAIT else None)] += one.total_ns - more
    return WaitPath(times={key: ns for key, ns in times.items() if ns}, steps=1)


def kinds_of(*rows: LeafTime, operators: tuple[OperatorCost, ...] = ()) -> LeafKinds:
    return LeafKinds.of(job_tree(path_of(rows), AttainableGain(operators, 0.8, (CHIP,))), 1)


def judged(
    *rows: LeafTime, problems: tuple[Loss, ...] = (), operators: tuple[OperatorCost, ...] = (),
    splits: tuple[StepSplit, ...] | None = None, expected: int | None = None, noise: float = 0.0,
) -> Verdict:  # fmt: skip
    ranks = sorted({one.rank for one in rows})
    whole = sum(one.total_ns for one in rows) // max(len(ranks), 1)
    return verdict(
        VerdictGrounds(
            steps=JobSteps(splits if splits is not None else (step(whole / MS, rank=rank) for rank in ranks)),
            times=rows, kinds=kinds_of(*rows, operators=operators).counting(problems, whole), problems=problems,
            expected=expected, noise=noise, limits=WhatLimits(operators, (CHIP,)),
        )
    )  # fmt: skip


def sentence(found: Verdict) -> str:
    return say(found.message)


def finding(fault: Fault, ms: float, *, ranks: tuple[int, ...] = (0,), blames: tuple[Blame, ...] = ()) -> Loss:
    ns = round(ms * MS)
    return Loss(
        message="t", ranks=ranks, blames=blames, cost_ns=ns, share=0.1, fault=fault, about=fault.about, confidence=0.5,
        gain=Gain(low_ns=ns, high_ns=ns, method="m", basis="replayed"),
    )  # fmt: skip


def operator(name: str, ms: float, roof: float | None) -> OperatorCost:
    known = {
        "kind": "matmul", "operator": name, "ns": round(ms * MS), "median_ns": round(ms * MS), "share": 1.0,
        "calls": 1, "kernels": 1, "ranks": (0,), "roof_share": roof,
        "losses": Losses(**{one.name: None for one in fields(Losses)}),  # type: ignore[arg-type]
    }  # fmt: skip
    rest = {one.name: None for one in fields(OperatorCost) if one.name not in known}
    return OperatorCost(**known | rest)  # type: ignore[arg-type]


def profiled(captured: float, before: float) -> Unprofiled:
    return Unprofiled(
        rank=0, steps=100, step_ns=round(before * MS), captured_ns=round(captured * MS), calls=1000.0, each_ns=1.0
    )


@pytest.mark.parametrize(
    ("dispatch", "before", "leaf"),
    [
        # Of 12 ms of dispatch the profiler added up to 10: between none of 10 ms and 6 of 10.
        (12, 10, Leaf.FILE_OR_NETWORK),
        # The profiler added 1 ms of 20: what was dispatch, is dispatch.
        (12, 19, Leaf.DISPATCH),
        # 16 ms are more than all that the profiler added.
        (16, 10, Leaf.DISPATCH),
    ],
)
def test_what_the_profiler_adds_to_calls_does_not_make_dispatch_the_headline(
    dispatch: float, before: float, leaf: Leaf
) -> None:
    file = 20 - dispatch
    rows = (row(Leaf.DISPATCH, dispatch), row(Leaf.FILE_OR_NETWORK, file))
    kinds = kinds_of(*rows).without_profiler(profiled(20, before))
    found = verdict(VerdictGrounds(steps=JobSteps([step(20, device=False)]), times=rows, kinds=kinds))
    assert found.leaf is leaf
    assert {kind.leaf: round(kind.share, 2) for kind in kinds.every} == {
        Leaf.DISPATCH: dispatch / 20, Leaf.FILE_OR_NETWORK: file / 20
    }  # fmt: skip


def test_without_steps_before_the_capture_dispatch_counts_in_full() -> None:
    kinds = kinds_of(row(Leaf.DISPATCH, 12), row(Leaf.FILE_OR_NETWORK, 8))
    assert kinds.without_profiler(None) is kinds
    assert kinds.without_profiler(profiled(20, 21)) is kinds


def test_the_leaf_that_has_most_to_win_is_named_with_its_call_and_place() -> None:
    found = judged(
        row(Leaf.HOST_OPERATOR, 31, "aten::split_with_sizes", "forward"), row(Leaf.DISPATCH, 9),
        row(Leaf.MATRIX_PRODUCT, 3, "aten::mm"),
    )  # fmt: skip
    assert (found.leaf, found.bound, round(found.share or 0, 2)) == (Leaf.HOST_OPERATOR, "host", 0.72)
    assert sentence(found).startswith(
        "1 step of 43.0 ms. The device is idle 93% of the time. 72% of each step (31.0 ms): an operator computes on "
        "the host (aten::split_with_sizes) in forward"
    )


def test_kinds_compete_before_places() -> None:
    many = [row(Leaf.DISPATCH, 2, place=f"line {number}") for number in range(10)]
    found = judged(*many, row(Leaf.PYTHON, 12, "one", "one"), row(Leaf.CONVOLUTION, 20))
    assert found.leaf is Leaf.DISPATCH


def test_a_wait_is_told_as_what_the_awaited_rank_did() -> None:
    found = judged(
        row(Leaf.MATRIX_PRODUCT, 10), row(Leaf.WAIT, 90, awaited=1),
        row(Leaf.MATRIX_PRODUCT, 10, rank=1), row(Leaf.NOT_RECORDED, 90, "all_to_all", "sparse", rank=1),
    )  # fmt: skip
    assert (found.leaf, found.rank) == (Leaf.NOT_RECORDED, 1)
    assert "The device of rank 1 is idle 90% of the time, and other ranks wait for it" in sentence(found)
    assert "not recorded, before all_to_all on rank 1 in sparse" in sentence(found)


@pytest.mark.parametrize(
    ("lead", "said"), [(2, "; curing rank 1 alone gives at most 2.00 ms, since rank 0 arrives next"), (88, "")]
)
def test_what_the_next_rank_leaves_of_a_cure_is_told_beside_the_late_rank(lead: float, said: str) -> None:
    rows = (
        row(Leaf.MATRIX_PRODUCT, 10), row(Leaf.WAIT, 90, awaited=1), row(Leaf.MATRIX_PRODUCT, 10, rank=1),
        row(Leaf.COMPILING, 90, "compile", rank=1),
    )  # fmt: skip
    path = replace(path_of(rows), leads={1: Lead(second=0, ns=round(lead * MS))})
    grounds = VerdictGrounds(
        steps=JobSteps([step(100, rank=0), step(100, rank=1)]), times=rows, kinds=kinds_of(*rows), path=path
    )
    assert sentence(verdict(grounds)).endswith(f"90% of each step (90.0 ms): compiling on rank 1 (compile){said}")


def test_a_rank_that_is_late_in_everything_is_the_headline_and_none_of_its_leaves() -> None:
    late = [Leaf.MATRIX_PRODUCT, Leaf.ATTENTION, Leaf.CONVOLUTION]
    found = judged(
        *(row(leaf, 10) for leaf in late), row(Leaf.WAIT, 30, awaited=1), row(Leaf.DISPATCH, 7),
        *(row(leaf, 20, place="main.py:75 `forward`", rank=1) for leaf in late), row(Leaf.DISPATCH, 7, rank=1),
    )  # fmt: skip
    assert (found.leaf, found.rank, found.awaited) == (Leaf.WAIT, 1, 1)
    assert "45% of each step (30.0 ms): waiting for rank 1 in main.py:75 `forward`" in sentence(found)
    # Where one kind of leaf makes most of it, that one says more.
    one = judged(
        row(Leaf.MATRIX_PRODUCT, 10), row(Leaf.WAIT, 30, awaited=1), row(Leaf.CONVOLUTION, 10),
        row(Leaf.MATRIX_PRODUCT, 35, rank=1), row(Leaf.CONVOLUTION, 15, rank=1),
    )  # fmt: skip
    assert (one.leaf, one.rank) == (Leaf.MATRIX_PRODUCT, 1)


def test_products_of_float32_could_take_the_type_that_a_setting_gives_them() -> None:
    rates = {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12}
    chip = ChipUsed(
        ranks=(0,), recorded="A", chip="A", told_by="name", matrix=rates, bandwidth=2e12, cores=None, mhz=None,
        sources={},
    )  # fmt: skip
    full = replace(operator("aten::mm", 1, 0.9), chip="A", precision="fp32", flops=19.5e9, bytes=1_000)
    assert AttainableGain((full,), 0.8)(Leaf.MATRIX_PRODUCT, "aten::mm", 1_000) == 0
    assert AttainableGain((full,), 0.8, (chip,))(Leaf.MATRIX_PRODUCT, "aten::mm", 1_000) == 875
    # Tensors of 16 bits are another matter, and so is a product that waits for its bytes in any type.
    old = replace(chip, matrix={"fp32": 15.7e12, "fp16": 125e12})
    assert AttainableGain((full,), 0.8, (old,))(Leaf.MATRIX_PRODUCT, "aten::mm", 1_000) == 0
    assert AttainableGain((replace(full, bytes=10**10),), 0.8, (chip,))(Leaf.MATRIX_PRODUCT, "aten::mm", 1_000) == 0


def test_work_for_which_the_others_wait_can_be_won_whatever_its_roof() -> None:
    found = judged(row(Leaf.MATRIX_PRODUCT, 40), row(Leaf.WAIT, 60, awaited=1), row(Leaf.MATRIX_PRODUCT, 100, rank=1))
    assert (found.leaf, found.rank, found.awaited) == (Leaf.MATRIX_PRODUCT, 1, 1)
    assert "100% of each step (100 ms): matrix products on rank 1; up to 60% of the time can be won" in sentence(found)


def test_the_wait_for_a_rank_that_was_not_collected_is_the_answer() -> None:
    found = judged(row(Leaf.MATRIX_PRODUCT, 20), row(Leaf.WAIT, 80, awaited=5), expected=8)
    assert (found.leaf, found.bound) == (Leaf.WAIT, "communication")
    assert sentence(found).startswith("1 step of 100 ms on 1 of 8 ranks.")
    assert "80% of each step (80.0 ms): waiting for rank 5, which was not collected" in sentence(found)
    assert (found.rank, found.awaited) == (0, 5)


def test_a_healthy_job_is_told_what_its_steps_are_made_of_and_how_close_it_is_to_attainable() -> None:
    found = judged(
        row(Leaf.MATRIX_PRODUCT, 98, "aten::mm"), row(Leaf.DISPATCH, 2), operators=(operator("aten::mm", 98, 0.78),)
    )
    assert (found.leaf, found.bound) == (Leaf.MATRIX_PRODUCT, "compute")
    assert sentence(found).endswith(
        "The time is 98% matrix products (aten::mm). The largest part: at 98% of what the chip attains"
    )
    unknown = judged(row(Leaf.MATRIX_PRODUCT, 98, "aten::mm"), row(Leaf.DISPATCH, 2))
    assert "how close this is to what the chip attains is not known" in sentence(unknown)


def test_products_far_below_their_roof_are_the_answer() -> None:
    slow = judged(
        row(Leaf.MATRIX_PRODUCT, 80, "aten::mm"), row(Leaf.DISPATCH, 20), operators=(operator("aten::mm", 80, 0.01),)
    )
    assert slow.leaf is Leaf.MATRIX_PRODUCT
    assert "80% of each step (80.0 ms): matrix products (aten::mm)" in sentence(slow)
    fast = judged(
        row(Leaf.MATRIX_PRODUCT, 80, "aten::mm"), row(Leaf.DISPATCH, 20), operators=(operator("aten::mm", 80, 0.79),)
    )
    assert fast.leaf is Leaf.DISPATCH


def test_small_products_are_not_held_against_a_roof_that_they_cannot_reach() -> None:
    small = replace(operator("aten::mm", 80, 0.05), median_ns=8_000)
    assert AttainableGain((small,), 0.8)(Leaf.MATRIX_PRODUCT, "aten::mm", 1_000) == pytest.approx(62, abs=2)


def test_a_busy_pipe_does_not_hide_that_a_product_is_far_below_its_roof() -> None:
    losses = replace(operator("Conv2D", 80, 0.01).losses, pipe_ns=0)
    bound = replace(operator("Conv2D", 80, 0.01), losses=losses)
    assert AttainableGain((bound,), 0.8)(Leaf.CONVOLUTION, "Conv2D", 100) == 99
    for share in (None, 0.5):
        assert AttainableGain((replace(bound, roof_share=share),), 0.8)(Leaf.CONVOLUTION, "Conv2D", 100) == 0


def test_an_unknown_roof_hides_no_loss_of_a_tenth_and_comes_before_smaller_ones() -> None:
    assert judged(row(Leaf.CONVOLUTION, 88), row(Leaf.PYTHON, 12, "f")).leaf is Leaf.PYTHON
    found = judged(row(Leaf.CONVOLUTION, 94), row(Leaf.PYTHON, 6, "f"))
    assert found.leaf is Leaf.CONVOLUTION
    assert sentence(found).endswith(
        "94% of each step (94.0 ms): convolutions; how close this is to what the chip attains is not known. "
        "The largest part that can be won: 6% of each step (6.00 ms): a line of Python (f)"
    )


def test_the_headline_says_what_most_of_the_time_is_and_the_largest_part_that_can_be_won() -> None:
    found = judged(row(Leaf.CONVOLUTION, 56, "conv"), row(Leaf.DISPATCH, 25), row(Leaf.NORM, 19))
    assert (found.leaf, found.most, found.most_share) == (Leaf.DISPATCH, Leaf.CONVOLUTION, 0.56)
    assert sentence(found).index("56% of each step") < sentence(found).index("The largest part that can be won: 25%")
    same = judged(row(Leaf.DISPATCH, 56, "conv"), row(Leaf.CONVOLUTION, 44))
    assert (same.leaf, same.most) == (Leaf.DISPATCH, Leaf.DISPATCH)
    assert "The largest part" not in sentence(same)


def steps_of(lengths: Sequence[float], rank: int = 0) -> tuple[StepSplit, ...]:
    return tuple(replace(step(ms, rank=rank), step=number) for number, ms in enumerate(lengths))


def test_long_steps_are_said_with_their_numbers_and_what_they_do_more() -> None:
    slow = replace(row(Leaf.INPUT_WORKERS, 300, "next"), step_ns=0, long_ns=300 * MS)
    rows = (replace(row(Leaf.NORM, 60), step_ns=10 * MS, long_ns=10 * MS), slow)
    found = judged(*rows, splits=steps_of([10, 10, 10, 310, 10, 10]))
    assert "83% of the time of all steps (300 ms): waiting for data loader workers" in sentence(found)
    assert (
        "1 of 6 steps (step 3) takes 31 times as long as the typical step, "
        "with 300 ms more of: waiting for data loader workers" in sentence(found)
    )
    even = judged(*rows, splits=steps_of([60, 60, 60, 60, 60, 60]))
    assert "of each step" in sentence(even)
    assert "times as long" not in sentence(even)


def test_of_ranks_that_wait_for_one_another_the_rank_that_works_longer_is_named() -> None:
    def extra(leaf: Leaf, rank: int) -> LeafTime:
        return replace(row(leaf, 40, rank=rank, awaited=1 if leaf is Leaf.WAIT else None), step_ns=0, long_ns=40 * MS)

    lengths = [10, 10, 50, 10]
    found = long_steps(
        JobSteps((*steps_of(lengths), *steps_of(lengths, 1))),
        (extra(Leaf.WAIT, 0), extra(Leaf.GARBAGE_COLLECTION, 1)),
    )
    assert found is not None
    assert (found.rank, found.steps, found.leaf, found.extra_ns) == (1, (2,), Leaf.GARBAGE_COLLECTION, 40 * MS)
    assert long_steps(JobSteps(steps_of([10, 10, 10, 14])), (extra(Leaf.NORM, 0),)) is None
    assert long_steps(JobSteps(steps_of([1] * 40 + [2])), (extra(Leaf.NORM, 0),)) is None  # 5% of the time


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"losses": {"blocks_ns": 57 * MS}}, "95% of the cores have nothing to do"),
        ({"losses": {"blocks_ns": 40 * MS}}, "67% of the cores have nothing to do; up to 40% of the time can be won"),
        ({"busiest": "scalar", "busiest_share": 0.999}, "scalar code keeps the cores busy for 100% of the time"),
        ({"busiest": "loading", "busiest_share": 0.91}, "loading from memory keeps the cores busy for 91% of the time"),
        ({"busiest": "scalar", "busiest_share": 0.3}, "how close this is to what the chip attains is not known"),
        ({"kind": "convolution", "precision": "fp32", "chip": "c"}, "in float32, though a setting"),
    ],
)
def test_counters_and_types_of_every_kernel_say_what_limits_it(told: Mapping[str, Any], said: str) -> None:
    plain = replace(operator("fused", 60, None), kind="other", flops=None, calls=1, chip=None, precision="")
    losses = replace(plain.losses, **told.get("losses", {}))
    one = replace(plain, **{**told, "losses": losses})
    found = judged(row(Leaf.OTHER_COMPUTE, 60, "fused"), row(Leaf.NORM, 40), operators=(one,))
    assert said in sentence(found)


def test_a_tenth_of_the_time_is_told_however_uneven_the_steps_are() -> None:
    found = judged(row(Leaf.CONVOLUTION, 85), row(Leaf.EXPOSED_COPY, 15, "Memcpy DtoD"), noise=0.4)
    assert (found.leaf, found.bound) == (Leaf.EXPOSED_COPY, "copy")


@pytest.mark.parametrize("noise", [0.0, 0.09])
def test_what_is_less_than_the_noise_of_the_steps_is_no_loss(noise: float) -> None:
    rows = (row(Leaf.MATRIX_PRODUCT, 92, "aten::mm"), row(Leaf.PYTHON, 8, "f"))
    found = judged(*rows, operators=(operator("aten::mm", 92, 0.8),), noise=noise)
    assert found.leaf is (Leaf.MATRIX_PRODUCT if noise else Leaf.PYTHON)
    assert ("loss" in sentence(found)) is False


def test_work_that_need_not_be_done_counts_as_findings_count_it() -> None:
    padding = finding(Fault.PADDING, 40)
    found = judged(row(Leaf.MATRIX_PRODUCT, 70, "aten::mm"), row(Leaf.DISPATCH, 30), problems=(padding,))
    assert (found.leaf, found.fault) == (Leaf.MATRIX_PRODUCT, Fault.PADDING)
    assert "up to 40% of the time can be won" in sentence(found)


def test_a_job_without_a_device_is_told_by_its_operators_and_says_so() -> None:
    found = judged(
        row(Leaf.RANDOM, 52, "aten::rand", "train.py:7 `main`"), row(Leaf.LAYOUT, 26), row(Leaf.ELEMENTWISE, 20),
        row(Leaf.FIRST_CALL, 2), splits=(step(100, device=False),),
    )  # fmt: skip
    assert (found.bound, found.leaf) == ("host", Leaf.RANDOM)
    assert "52% random numbers (aten::rand)" in sentence(found)
    assert "most of it in train.py:7 `main`" in sentence(found)
    assert sentence(found).endswith("No device task was recorded")


def test_the_headline_gives_the_length_of_the_captured_steps_whatever_came_before_them() -> None:
    rows = (row(Leaf.PYTHON, 20, place="train.py:3 `f`"),)
    grounds = VerdictGrounds(
        steps=JobSteps((step(20, kind="host", device=False),)), times=rows, kinds=kinds_of(*rows),
        unprofiled_ns=9 * MS,
    )  # fmt: skip
    assert sentence(verdict(grounds)).startswith("1 step of 20.0 ms.")


def test_a_capture_without_marks_is_one() -> None:
    found = judged(row(Leaf.DISPATCH, 86, "launch"), row(Leaf.OTHER_COMPUTE, 14), splits=(step(100, kind="capture"),))
    assert sentence(found).startswith("Capture of 100 ms. The device is idle 86% of the time. 86% of the capture")


def test_a_capture_that_is_mostly_the_start_of_the_job_says_so() -> None:
    whole = step(100, kind="capture")
    rows = (row(Leaf.INPUT_WORKERS, 70), row(Leaf.NORM, 30))

    def said(**told: object) -> str:
        return sentence(judged(*rows, splits=(replace(whole, step=None, **told),)))  # type: ignore[arg-type]

    assert "60% of it is the start of the job" in said(preparing_ns=60 * MS)
    assert "start of the job" not in said(preparing_ns=40 * MS)
    assert "start of the job" not in said(preparing_ns=60 * MS, window_kind="host")
    compiled = judged(row(Leaf.COMPILING, 40), row(Leaf.FIRST_CALL, 30), row(Leaf.NORM, 30), splits=(whole,))
    assert "70% of it is the start of the job" in sentence(compiled)


def test_what_costs_little_is_no_answer_to_a_large_leaf_or_to_the_start_of_the_job() -> None:
    waits = finding(Fault.TOO_FEW_WORKERS, 8)
    steps = (row(Leaf.INPUT_WORKERS, 12), row(Leaf.NORM, 88))
    assert judged(*steps, problems=(waits,)).fault is Fault.TOO_FEW_WORKERS
    start = replace(step(100, kind="capture"), step=None, preparing_ns=95 * MS)
    assert judged(*steps, problems=(waits,), splits=(start,)).fault is None
    # Any input leaf is of the fault, and most of this one has another cause.
    assert judged(row(Leaf.INPUT_READ, 95), row(Leaf.NORM, 5), problems=(waits,)).fault is None


def test_time_outside_of_the_steps_and_of_the_profiler_is_no_loss() -> None:
    found = judged(
        row(Leaf.END, 500, "aclrtResetDevice"), row(Leaf.PROFILER, 50), row(Leaf.DISPATCH, 20),
        row(Leaf.ELEMENTWISE, 30), splits=(step(600, kind="capture"),),
    )  # fmt: skip
    assert found.leaf is Leaf.DISPATCH
    assert sentence(found).startswith("Capture of 100 ms.")


def test_what_ends_the_job_is_said_before_what_slows_it() -> None:
    ends = replace(finding(Fault.GROWING_MEMORY, 1), message="Memory grows by 1 GB a step", endangers=True)
    found = judged(row(Leaf.DISPATCH, 60), row(Leaf.CONVOLUTION, 40), problems=(ends,))
    assert found.fault is Fault.GROWING_MEMORY
    assert "Memory grows by 1 GB a step. The job ends when memory is full" in sentence(found)


def test_the_rank_that_the_others_wait_for_is_said_beside_a_leaf_of_all_ranks() -> None:
    rows = [row(Leaf.DISPATCH, 70, rank=0), row(Leaf.WAIT, 30, rank=0, awaited=1), row(Leaf.DISPATCH, 100, rank=1)]
    assert "Ranks wait for each other 15% of the time, mostly for rank 1. " in sentence(judged(*rows))


def test_without_a_stack_of_python_the_verdict_says_how_to_see_the_line() -> None:
    hint = "No Python stack was recorded: record stacks to see the line of code"
    assert hint in sentence(judged(row(Leaf.SYNCHRONISATION, 60, "cudaStreamSynchronize"), row(Leaf.NORM, 40)))
    told = row(Leaf.SYNCHRONISATION, 60, "cudaStreamSynchronize", "train.py:3 `f`")
    assert hint not in sentence(judged(told, row(Leaf.NORM, 40)))


def test_of_a_service_alone_the_verdict_says_where_its_requests_spend_their_time() -> None:
    base = dict.fromkeys(field.name for field in fields(Requests))
    told = Requests(**base | {"rank": 0, "requests": 40, "took_ns": 2_000 * MS, "first_token_ns": 500 * MS})  # type: ignore[arg-type]

    def of(row: Requests | None) -> str:
        requests = (row,) if row else ()
        return say(
            verdict(VerdictGrounds(steps=JobSteps(()), times=(), kinds=LeafKinds.of(()), requests=requests)).message
        )

    assert of(replace(told, queue_share=0.6)).endswith("60% of the time of requests is waiting in queues")
    assert of(replace(told, queue_share=0.1)) == (
        "Requests take 2.00 s in the median: 25% until the first token, 10% of this time in queues"
    )
    assert "cannot be said" in of(None)


def test_a_finding_stands_for_all_that_can_be_won_of_the_leaf_it_explains() -> None:
    kinds = kinds_of(row(Leaf.SYNCHRONISATION, 50, "item"), row(Leaf.DISPATCH, 30), row(Leaf.NORM, 20))
    step_ns = 100 * MS
    large, small = finding(Fault.SYNCHRONISING_CALL, 20), finding(Fault.SYNCHRONISING_CALL, 1)
    assert kinds.claim(large, step_ns) == 0.5
    assert kinds.claim(small, step_ns) == 0.01  # it costs too little to explain the leaf
    assert kinds.claim(finding(Fault.SHORT_KERNELS, 25), step_ns) == 0.3
    assert kinds.claim(finding(Fault.UNFUSED_LAYERS, 60), step_ns) == 0.2  # never more than its leaves
    assert kinds.claim(finding(Fault.LOW_CLOCK, 7), step_ns) == 0.07  # a risk stands for its own gain


def test_a_finding_about_other_ranks_does_not_explain_the_leaf_of_one() -> None:
    kinds = kinds_of(
        row(Leaf.WAIT, 90, awaited=1), row(Leaf.NORM, 10), row(Leaf.SYNCHRONISATION, 90, rank=1),
        row(Leaf.NORM, 10, rank=1),
    )  # fmt: skip
    assert kinds.every[0].rank == 1
    assert not kinds.explained(finding(Fault.SYNCHRONISING_CALL, 5, ranks=(0,)))
    assert kinds.explained(finding(Fault.SYNCHRONISING_CALL, 5, ranks=(1,)))
    late = finding(Fault.STRAGGLER, 80, blames=(Blame.of_rank(1),))
    assert [kind.leaf for kind in kinds.explained(late)] == [Leaf.SYNCHRONISATION]


def test_no_finding_costs_more_than_its_ranks_spend_in_its_leaves() -> None:
    spent = {0: {Leaf.DISPATCH: 9 * MS, Leaf.NORM: MS}, 1: {Leaf.DISPATCH: 4 * MS}}
    job = Job(steps=JobSteps(()), spent=spent)
    cut = within_leaf(job, finding(Fault.SHORT_KERNELS, 40, ranks=(0, 1)))
    assert (cut.cost_ns, cut.gain.high_ns, cut.gain.low_ns) == (9 * MS, 9 * MS, 9 * MS)
    assert within_leaf(job, finding(Fault.SHORT_KERNELS, 40, ranks=(1,))).cost_ns == 4 * MS
    for whole in (
        finding(Fault.STRAGGLER, 40),
        finding(Fault.GROWING_MEMORY, 40),
        finding(Fault.DISPATCH, 40, ranks=(7,)),
    ):
        assert within_leaf(job, whole) == whole


def test_sparse_gradients_come_before_a_fused_optimizer_if_they_gain_more_of_its_time() -> None:
    rows = (row(Leaf.OPTIMIZER, 80), row(Leaf.EMBEDDING, 2), row(Leaf.MATRIX_PRODUCT, 18))
    job = Job(steps=JobSteps(()), spent={0: {one.leaf: one.total_ns for one in rows}}, lengths={0: 100 * MS})
    floor = NoiseFloor(ns=0, step_ns=100 * MS, spread_ns=None, of="steps", unexplained_ns=None, least_ns=0)

    def first(sparse_ms: float) -> Fault | None:
        fused = replace(finding(Fault.UNFUSED_OPTIMIZER, 60), confidence=0.9, code="A")
        found = [within_leaf(job, one) for one in (fused, finding(Fault.DENSE_TABLE_GRADIENTS, sparse_ms))]
        return rank(found, lambda _: None, floor, claim=kinds_of(*rows).claim).problems[0].fault

    assert first(70) is Fault.DENSE_TABLE_GRADIENTS
    assert first(50) is Fault.UNFUSED_OPTIMIZER


def test_a_finding_stands_under_the_leaf_in_which_its_ranks_spend_what_it_costs() -> None:
    spent = {0: {Leaf.LONG_LAUNCH: MS, Leaf.DISPATCH: 19 * MS}}
    job = Job(steps=JobSteps(()), spent=spent)
    long_ = replace(finding(Fault.LAUNCH_BLOCKING, 15), about=Leaf.LONG_LAUNCH)
    cut = within_leaf(job, long_)
    assert (cut.about, cut.cost_ns) == (Leaf.DISPATCH, 15 * MS)
    # Leaves of launching count together, and others each for itself.
    short = within_leaf(job, replace(long_, cost_ns=2 * MS))
    assert (short.about, short.cost_ns) == (Leaf.LONG_LAUNCH, 2 * MS)
    assert within_leaf(job, replace(long_, cost_ns=25 * MS)).cost_ns == 20 * MS
    own = Job(steps=JobSteps(()), spent={0: {Leaf.COMPILING: 2 * MS, Leaf.FIRST_CALL: 9 * MS}})
    assert within_leaf(own, finding(Fault.COMPILATION, 9)).cost_ns == 2 * MS
    # Overlap cures no wait for another rank: exposed communication costs what is transfer.
    exposed = finding(Fault.EXPOSED_COMMUNICATION, 40)
    waits = Job(steps=JobSteps(()), spent={0: {Leaf.TRANSFER: 2 * MS, Leaf.WAIT: 38 * MS}})
    assert within_leaf(waits, exposed).cost_ns == 2 * MS
    mixed = Job(steps=JobSteps(()), spent={0: {Leaf.COMMUNICATION: 30 * MS}})
    assert (within_leaf(mixed, exposed).about, within_leaf(mixed, exposed).cost_ns) == (Leaf.COMMUNICATION, 30 * MS)


def test_no_range_of_a_gain_exceeds_the_leaves_and_shares_are_of_the_step_of_the_tree() -> None:
    spent = {0: {Leaf.DISPATCH: 8 * MS, Leaf.NORM: 2 * MS}}
    job = Job(steps=JobSteps(()), spent=spent, lengths={0: 10 * MS})
    one = replace(finding(Fault.SHORT_KERNELS, 7), replay=("host:dispatch=0",))
    cut = within_leaf(job, one)
    assert (cut.cost_ns, cut.share, cut.room_ns) == (7 * MS, 0.7, 8 * MS)
    floor = NoiseFloor(ns=0, step_ns=10 * MS, spread_ns=None, of="steps", unexplained_ns=None, least_ns=0)
    known = CostCertainty(floor=floor, room=GainBound(step_ns=10 * MS, host_ns=10 * MS))
    # Several findings of one leaf have that leaf once. The leaves of other steps differ, too: by a twentieth.
    assert known.held_ns(20 * MS, [cut, cut]) == 8.4 * MS
    assert known.held_ns(20 * MS, [cut, replace(cut, about=Leaf.NORM)]) == 16.8 * MS
    assert known.held_ns(20 * MS, [one, cut]) == 20 * MS


def test_a_cure_on_several_ranks_gives_back_their_waits_for_each_other_too() -> None:
    spent = {rank: {Leaf.DISPATCH: 8 * MS, Leaf.WAIT: 3 * MS} for rank in (0, 1)}
    job = Job(steps=JobSteps(()), spent=spent, lengths={0: 20 * MS, 1: 20 * MS})
    assert within_leaf(job, finding(Fault.SHORT_KERNELS, 7, ranks=(0, 1))).room_ns == 11 * MS
    assert within_leaf(job, finding(Fault.SHORT_KERNELS, 7, ranks=(1,))).room_ns == 8 * MS


def test_what_can_be_won_of_work_is_told_by_the_upper_end_of_its_cure() -> None:
    one = replace(
        finding(Fault.UNFUSED_OPTIMIZER, 40),
        gain=Gain(low_ns=20 * MS, high_ns=30 * MS, method="m"),
    )
    kinds = kinds_of(row(Leaf.OPTIMIZER, 40), row(Leaf.NORM, 60)).counting([one], 100 * MS)
    (kind,) = (kind for kind in kinds.every if kind.leaf is Leaf.OPTIMIZER)
    assert (kind.curable, kind.most) == (0.25, 0.3)


@pytest.mark.parametrize(("mine", "other", "told"), [(50, 90, 1), (86, 90, 0)])
def test_the_rank_is_the_one_with_most_of_the_leaf_and_of_alike_ones_the_slowest(
    mine: float, other: float, told: int
) -> None:
    rows = [
        row(Leaf.NOT_RECORDED, mine), row(Leaf.NORM, 101 - mine),
        row(Leaf.NOT_RECORDED, other, rank=1), row(Leaf.NORM, 100 - other, rank=1),
    ]  # fmt: skip
    tree = job_tree(path_of(tuple(rows)), lambda leaf, _what, ns: ns if leaf is Leaf.NOT_RECORDED else None)
    found = verdict(
        VerdictGrounds(steps=JobSteps((step(101), step(100, rank=1))), times=rows, kinds=LeafKinds.of(tree))
    )
    assert (found.leaf, found.rank) == (Leaf.NOT_RECORDED, told)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_a_fault_explains_the_leaf_that_it_is_about(fault: Fault) -> None:
    assert (fault.about in fault.explains) is isinstance(fault.about, Leaf)


def test_a_finding_about_waiting_stands_under_the_leaf_that_makes_the_named_rank_late() -> None:
    late = (row(Leaf.COMPILING, 40, rank=1), row(Leaf.MATRIX_PRODUCT, 20, rank=1))
    waiting = (row(Leaf.WAIT, 40, awaited=1), row(Leaf.MATRIX_PRODUCT, 20))
    straggler = finding(Fault.STRAGGLER, 40, blames=(Blame.of_rank(1),))
    placed = kinds_of(*waiting, *late).placed(straggler)
    assert placed.about is Leaf.COMPILING
    assert placed.awaited == {1}
    # The path does not lead to a rank that was not collected.
    assert kinds_of(*waiting).placed(straggler).about is Leaf.WAIT


def test_where_no_host_was_recorded_the_verdict_says_how_to_record_it() -> None:
    rows = (row(Leaf.NOT_RECORDED, 80), row(Leaf.MATRIX_PRODUCT, 20))
    known = VerdictGrounds(steps=JobSteps([step(100)]), times=rows, kinds=kinds_of(*rows))
    said = sentence(verdict(replace(known, host=False, recorder=MSPROF)))
    assert said.endswith(f"not recorded. The host has no timeline: record it too ({MSPROF.host})")
    assert sentence(verdict(replace(known, host=False))).endswith("The host has no timeline: record it too")
    assert sentence(verdict(known)).endswith("not recorded")
