"""Measures of reinforcement learning: the time of each role, such as rollout or update, in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.declare import field, measure


@measure(
    "roles",
    title="Roles of a reinforcement-learning job",
    zh="强化学习任务的角色",
    about=(
        "By the ranges that the program named, or by captures of which each has a role's folder. The role that takes "
        "longest bounds its step."
    ),
    most=500,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTime:
    """One task of a role in one step: the rank on which the task takes longest, and what the device does meanwhile.

    For roles told by ranges, `device_ns` adds up the device tasks that were launched in the ranges, and the other parts
    are not known. For roles told by captures, `device_ns` is the time in which the device computes.
    """

    step: int | None = field("step of the job; null where none is told", "Step", "步")
    role: str = field("`rollout`, `actor`, `critic`, `reference` or `reward`", "Role", "角色")
    task: str = field("what it does, as it was named", "Task", "任务", kind="name")
    source: Literal["ranges", "captures"] = field("how the role is known", "Source", "来源")
    ranks: tuple[int, ...] = field("ranks that have it", "Ranks", "卡")
    wall_ns: int = field("on the rank where it takes longest", "Longest rank", "最长一卡")
    wall_rank: int = field("which", "Rank", "卡号")
    least_ns: int = field("on the rank where it takes least", "Shortest rank", "最短一卡")
    device_ns: int = field("of the longest rank: its device works", "On the device", "设备时间", of="wall_ns")
    exposed_comm_ns: int | None = field(
        "of the longest rank: communication with nothing computed", "Exposed communication", "未掩盖通信", of="wall_ns"
    )
    share: float = field("of the times of all roles of the step", "Of the step", "占步", kind="share")
    bounds: bool = field("whether it takes longest of its step", "Bounds the step", "决定步长")
