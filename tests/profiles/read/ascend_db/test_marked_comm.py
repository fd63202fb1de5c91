"""A capture of Level_none has no collectives: those that torch_npu's marks name stand for them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hermes.profiles.read.table_sink import Sink
from hermes_testing.draft_db import Draft

Read = Callable[..., Sink]


def marked(draft: Draft, start: int, link: int, *, escaped: bool = False, **changes: object) -> Draft:
    told = {"streamId": "2", "count": "512", "dataType": "fp32", "groupName": "group_name_5", "opName": "HcclAllreduce"}
    text = json.dumps({**told, **changes})
    text = text.replace('"', '\\"') if escaped else text
    draft.task(link, start + 20, start + 120, task="MSTX_MARK", link=link)
    return draft.add(
        "MSTX_EVENTS", startNs=start, endNs=start + 1, globalTid=(7 << 32) | 9, message=draft.name(text),
        connectionId=link,
    )  # fmt: skip


@pytest.mark.parametrize("escaped", [False, True])
def test_a_mark_of_communication_is_a_collective_with_its_time_on_the_device(
    draft: Draft, read: Read, *, escaped: bool
) -> None:
    sink = read(marked(draft.step(1, 50, 900), 100, 4000000001, escaped=escaped))
    (row,) = sink.read("comm_op").to_dicts()
    assert (row["op"], row["start_ns"], row["dur_ns"], row["bytes"]) == ("all_reduce", 120, 100, 2048)
    assert row["dtype"] == "FP32"
    assert row["group"] == "5862276114690318097"
    # Its mark is no kernel: what the device computed meanwhile was not recorded.
    assert not sink.rows("kernel")


def test_other_marks_and_damaged_ones_are_no_collectives(draft: Draft, read: Read) -> None:
    draft = marked(draft.step(1, 50, 900), 100, 4000000001, count="many")
    for start, text in ((300, '{"groupName": 1}'), (400, '{"groupName"'), (500, "load batch")):
        draft.add(
            "MSTX_EVENTS", startNs=start, endNs=start + 1, globalTid=(7 << 32) | 9, message=draft.name(text),
            connectionId=4000000000,
        )  # fmt: skip
    (row,) = read(draft).read("comm_op").to_dicts()
    assert row["count"] is None


def test_collectives_that_were_recorded_come_before_marks(draft: Draft, read: Read) -> None:
    draft.add(
        "COMMUNICATION_OP", opName=draft.name("hcom_allGather__097_0_1"), startNs=100, endNs=900, connectionId=40,
        groupName=draft.name("group_name_5"), opId=1, opType=draft.name("hcom_allGather_"),
    )  # fmt: skip
    sink = read(marked(draft, 200, 4000000001))
    assert sink.read("comm_op")["op"].to_list() == ["all_gather"]
