"""Tasks whose type a writer does not know are told by their names."""

from __future__ import annotations

import polars as pl

from hermes.profiles.read.ascend.export_kernels import _classified


def test_tasks_of_a_collective_are_communication_though_their_type_is_other() -> None:
    names = {
        "NOTIFY_WAIT": "comm", "NOTIFY_RECORD": "comm", "REDUCE_ASYNC_V2": "comm", "MEMCPY_ASYNC": "copy",
        "EVENT_WAIT": "wait", "Other": "other", "trans_Cast_81": "compute",
    }  # fmt: skip
    rows = pl.DataFrame({
        "name": list(names), "task_type": "Other", "detail_core": None, "is_detail": False, "direction": None,
        "task_id": 1, "type": None,
    }, schema_overrides={"detail_core": pl.String, "direction": pl.String, "type": pl.String})  # fmt: skip
    assert dict(_classified(rows).select("name", "component").iter_rows()) == names


def test_kernels_that_carry_out_a_collective_are_communication() -> None:
    rows = pl.DataFrame(
        [
            # A timeline of Ascend 950: the kernel of a collective on vector cores, with its type alone to tell.
            ("AivKernel", "COMMUNICATION", None, False, None, "comm"),
            ("AivKernel", "AI_VECTOR_CORE", "AI_VECTOR_CORE", True, "AivKernel", "comm"),
            ("aiv_all_reduce_910b_bfloat16_t", "AI_VECTOR_CORE", "AI_VECTOR_CORE", True, None, "comm"),
            ("user_kernel", "AI_VECTOR_CORE", "AI_VECTOR_CORE", True, "COMMUNICATION", "comm"),
            ("MyAivKernelOfMine", "AI_VECTOR_CORE", "AI_VECTOR_CORE", True, "Mul", "compute"),
        ],
        schema=["name", "task_type", "detail_core", "is_detail", "type", "wanted"], orient="row",
    ).with_columns(pl.lit(None, dtype=pl.String).alias("direction"), pl.lit(1).alias("task_id"))  # fmt: skip
    found = _classified(rows)
    assert found["component"].to_list() == found["wanted"].to_list()
