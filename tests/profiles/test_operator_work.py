"""The work list: what limits an operator and what it can win at most, from rows that are written down here."""

from __future__ import annotations

import pytest
from tests.shared_jobs import Jobs

from hermes.model.compute_measures import Losses, OperatorCost
from hermes.profiles.advise.operator_work import work_list

MS = 1_000_000
NONE = Losses(frequency_ns=None, blocks_ns=None, pipe_ns=None, layout_ns=0)


def cost(**changes: object) -> OperatorCost:
    """A product on an H100 in float32 that takes 1 ms in each of 10 calls."""
    given = {
        "kind": "matmul", "operator": "aten::mm", "shapes": "4096,4096;4096,4096", "dtypes": "float;float",
        "chip": "H100 SXM", "ranks": (0,), "calls": 10, "kernels": 10, "ns": 10 * MS, "share": 0.5,
        "median_ns": MS, "flops": 40_000_000_000, "bytes": 200_000_000, "precision": "fp32", "tflops": 40.0,
        "gb_per_s": 200.0, "limit": "compute", "roof_share": 0.6, "bound": "neither", "losses": NONE,
        "aligned": True, "note": "",
    }  # fmt: skip
    return OperatorCost(**{**given, **changes})  # type: ignore[arg-type]


def levers(one: OperatorCost) -> dict[str, int | None]:
    (work,) = work_list([one])
    return {lever.what: lever.most_ns for lever in work.levers}


def test_a_wide_product_wins_down_to_the_roof_of_the_narrow_type() -> None:
    # 40e9 operations at 989.4e12 a second take 40.4 us, 100 MB at 3352 GB/s take 29.8 us.
    assert levers(cost())["compute it in bf16"] == pytest.approx(10 * MS - 10 * 40_429, abs=20)


def test_a_product_that_is_narrow_already_wins_up_to_what_good_kernels_reach() -> None:
    assert levers(cost(precision="bf16")) == {"tune it, or take another kernel": 2_500_000}


def test_at_its_roof_nothing_is_to_be_tried() -> None:
    assert levers(cost(precision="bf16", roof_share=0.85, bound="compute")) == {}


def test_what_computes_nothing_can_go_as_a_whole() -> None:
    said = levers(cost(kind="transpose", operator="aten::copy_", precision="bf16"))
    assert said == {"take it out of the step": 10 * MS}


def test_idle_cores_pipes_and_the_clock_are_told_with_what_each_costs() -> None:
    losses = Losses(frequency_ns=MS, blocks_ns=3 * MS, pipe_ns=2 * MS, layout_ns=0)
    one = cost(kind="elementwise", precision="fp32", roof_share=None, losses=losses)
    assert [*levers(one).values()] == [3 * MS, 2 * MS, MS]
    (work,) = work_list([one])
    assert work.limited_by == "idle cores: 30% of its time"


def test_without_a_chip_no_gain_is_made_up() -> None:
    assert levers(cost(chip=None, roof_share=None, aligned=False)) == {
        "pad its inner axes to the tile of the matrix unit": None
    }


@pytest.mark.parametrize("name", ["kineto/h100_qwen1.5-0.5b.json.gz", "ascend/alexnet_text_level2"])
def test_of_real_profiles_no_lever_wins_more_than_the_operator_takes(name: str, jobs: Jobs) -> None:
    works = work_list(jobs.real_report(name).rows(OperatorCost))
    assert len(works) >= 50
    assert all((lever.most_ns or 0) <= one.cost.ns for one in works for lever in one.levers)
    assert [one.most_ns for one in works] == sorted((one.most_ns for one in works), reverse=True)
