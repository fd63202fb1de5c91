"""Describes the roles of a reinforcement-learning job on the terminal, such as rollout and update."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.report import Report
from hermes.model.role_measures import RoleTime
from hermes.report.format import duration, fraction

_MOST = 6


def role_lines(report: Report) -> Iterator[str]:
    """One line with the tasks of roles by their time a step, the longest first; no line for a job without roles."""
    rows = report.rows(RoleTime)
    steps = len({row.step for row in rows})
    tasks: dict[str, list[RoleTime]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    sums = sorted(((sum(row.wall_ns for row in own), task) for task, own in tasks.items()), reverse=True)
    total = sum(wall for wall, _ in sums)
    said = [
        f"{task} {fraction(wall / total)} ({duration(wall // steps)}, device busy for "
        f"{fraction(sum(row.device_ns for row in tasks[task]) / wall)})"
        for wall, task in sums[:_MOST]
        if wall
    ]
    if said:
        yield f"Roles  {' · '.join(said)}"
