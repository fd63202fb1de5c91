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
        "task_id": 1,
    }, schema_overrides={"detail_core": pl.String, "direction": pl.String})  # fmt: skip
    assert dict(_classified(rows).select("name", "component").iter_rows()) == names
