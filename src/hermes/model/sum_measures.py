"""Measures of captures that have no timeline: sums that the profiler itself made. Integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure


@measure("top.sums", title="Sums of a capture without a timeline", zh="无时间线采集的汇总")
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSum:
    """Device work or host calls of one name, as the profiler itself added them up, where no timeline was given.

    Calls of one layer contain calls of the layers below, so calls of different layers must not be added up.
    """

    rank: int = field("global rank", "Rank", "卡")
    side: Literal["device", "host"] = field("`device` or `host`", "Side", "侧")
    name: str = field("operator type, operator or call", "Name", "名称")
    detail: str = field("unit of the device, or layer of the host", "Detail", "详情")
    count: int | None = field("occurrences", "Count", "次数")
    total_ns: int = field("their sum", "Total", "合计")
    share: float = field("of the sums of its side and layer, 0 to 1", "Share", "占比")
    max_ns: int | None = field("longest", "Most", "最大")
