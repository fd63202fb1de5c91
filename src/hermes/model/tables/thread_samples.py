"""The canonical tables of thread samples from Hermes' own capture."""

from __future__ import annotations

from hermes.model.tables.columns import RANK
from hermes.model.tables.schema import Column, Table

SAMPLE = Table(
    "sample",
    "where the stepping thread stood when a capture of Hermes looked, in it and in the steps before",
    (
        RANK,
        Column("ts_ns", "int", "Moment; before the first step for steps without the profiler.", "ns"),
        Column("frames", "text", "Python frames, innermost first, one a line: `file(line): function`."),
        Column("long", "int", "1 in a step that is longer than others at an even distance, else 0."),
    ),
)

THREAD_RUN = Table(
    "thread_run",
    "where a thread beside the stepping one stood when a capture of Hermes looked and it had been on a core",
    (
        RANK,
        Column("thread", "int", "Number of the thread in the capture."),
        Column("name", "text", "Name of the thread; empty where it had ended."),
        Column("cpu_ns", "int", "Time of the thread on a core while it was looked at.", "ns"),
        Column("wall_ns", "int", "Time of all looks.", "ns"),
        Column("seen", "int", "Looks at which the thread stood there."),
        Column("looks", "int", "Looks at all threads in all."),
        Column("frames", "text", "Python frames, innermost first, one a line: `file(line): function`."),
    ),
)
