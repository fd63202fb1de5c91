"""Measures of overlap: how long components of a step ran beside each other, in integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.declare import NestedTable, derived, field, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapPart:
    """One component of a step and the time for which other components ran beside it.

    `component` is one of five: `compute`, `communication` (of `group`), `copy` (`group` is its direction), `data input`
    or `host`. `data input` is time in a host call that fetches a batch. `host` is time in an operator or runtime call
    that does not wait. `busy_ns` is the union of the component's `events`. `exposed_ns` is the part beside which no
    component earlier in this order ran; `alone_ns` is the part beside which no other component ran. `overlap` is `1 -
    exposed/busy`; None for compute, which is first.
    """

    component: str = field("`compute`, `communication`, `copy`, `data input` or `host`", "Component", "成分")
    group: str | None = field("process group of a collective, direction of a copy", "Group", "通信域")
    events: int = field("tasks or calls", "Events", "事件数")
    busy_ns: int = field("their union in the window", "Busy", "忙碌", of="parent.window_ns")
    exposed_ns: int = field(
        "the part beside which no component of an earlier kind ran", "Exposed", "未掩盖", of="parent.window_ns"
    )
    alone_ns: int = field("the part beside which nothing ran", "Alone", "单独", of="parent.window_ns")

    @property
    def label(self) -> str:
        """The component with its group."""
        return self.component if self.group is None else f"{self.component} {self.group}"

    @property
    @derived("`1 - exposed/busy`; null for compute", "Overlap", "重叠率", kind="share")
    def overlap(self) -> float | None:
        """The share of the component that components earlier in the order hide; None for the first, compute."""
        return None if self.component == "compute" or not self.busy_ns else 1 - self.exposed_ns / self.busy_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapState:
    """How long exactly these components of a step ran at once; without components: how long nothing ran."""

    components: tuple[str, ...] = field("exactly these ran; none: nothing did", "Running", "同时进行")
    ns: int = field("how long", "Time", "时间", of="parent.window_ns")


@measure(
    "overlap",
    title="What ran at once in the step",
    zh="步内同时进行的工作",
    about="The window of one step by what ran at once. [Components and their order](concepts.md#overlap).",
    opened=(
        NestedTable(
            name="parts",
            title="Overlap",
            zh="重叠",
            about="What each component took of a typical step, and what of it nothing before it hid.",
        ),
        NestedTable(
            name="states",
            title="Overlap: what ran at once",
            zh="重叠：同时进行的工作",
            about="How long exactly these components ran together; the rows of one rank add up to the window.",
        ),
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class StepOverlap:
    """The window of a step, divided by which components ran at once; the `states` add up to `window_ns` exactly.

    `absent` names the components without a record in the window.
    """

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    window_ns: int = field("length of the window; the states add up to it", "Window", "窗口")
    parts: tuple[OverlapPart, ...] = field("each component", "Parts", "组成")
    states: tuple[OverlapState, ...] = field("each combination of components, longest first", "At once", "同时进行")
    absent: tuple[str, ...] = field("components of which nothing was recorded in the window", "Not recorded", "未记录")
