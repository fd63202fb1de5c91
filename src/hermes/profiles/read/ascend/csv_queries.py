"""DuckDB queries for the CSV files that CANN's export writes beside a trace, and one for undocumented files.

The headers are those of `msconfig/msprof_export_data_config.py` of msprof.
"""

from __future__ import annotations

import re

from hermes.profiles.read.csvfile import Csv, real, size, whole
from hermes.profiles.read.query import literal, ns_sql

_UNIT = re.compile(r"\(([^()]{1,20})\)\s*$")
_KIND = re.compile(r"(_slice_\d+)?(_\d{6,})?(_\d+)?$")
_LABELS = 3
_MOST_ROWS = 20_000
_PLACES = ("Device_id",)
_LABEL = re.compile(r"(?i)^(metric|name|mode|event|function|module|pid|.*\bid|.*\btype|.*name|user|cpu|core.*|level)$")


def kind_of(file: Csv) -> str:
    """The kind of a file from its name, without time and number: `hbm` of `hbm_20250101120000.csv`."""
    return _KIND.sub("", file.path.stem)


def iterations(file: Csv, mindspore: bool) -> str:
    """`step_trace`: iterations of a graph as steps; of several models the one with most iterations."""
    end, time = ns_sql(file.pick("Iteration End(us)")), ns_sql(file.pick("Iteration Time(us)"))
    model = file.pick("Model ID")
    return f"""
        WITH all_rows AS (
          SELECT {whole(file.pick("Iteration ID"))} AS step, {end} - {time} AS start_ns, {time} AS dur_ns,
                 coalesce({model}, '') AS model FROM {file.relation}),
        most AS (SELECT model FROM all_rows GROUP BY 1 ORDER BY count(*) DESC, model LIMIT 1)
        SELECT step, min(start_ns) AS start_ns, max(start_ns + dur_ns) - min(start_ns) AS dur_ns,
               'Iteration ' || step AS name, step IS NULL OR bool_or(start_ns IS NULL OR dur_ns < 0) AS bad
        FROM all_rows WHERE model IN (FROM most) GROUP BY step ORDER BY start_ns"""


def device_memory(file: Csv, mindspore: bool) -> str:
    """`npu_mem`: memory that application and device hold, in all kinds of device memory."""
    parts = [f"coalesce({size(file.pick(name), 1024)}, 0)" for name in ("ddr(KB)", "hbm(KB)") if file.has(name)]
    total = " + ".join(parts) or size(file.pick("memory(KB)"), 1024)
    return f"""
        SELECT CASE lower({file.pick("event")}) WHEN 'app' THEN 'APP' WHEN 'device' THEN 'Device'
                    ELSE coalesce({file.pick("event")}, 'unknown') END AS component,
               {ns_sql(file.pick("timestamp(us)"))} AS ts_ns, {total} AS reserved_bytes,
               {whole(file.pick("Device_id"))} AS device_id, ts_ns IS NULL AS bad FROM {file.relation}"""


def fused(file: Csv, mindspore: bool) -> str:
    """`fusion_op`: each operator that a graph's compiler fused, with the number of its original operators."""
    original = file.pick("Original Ops")
    return f"""
        SELECT 'fusion_op' AS source, coalesce({file.pick("Fusion Op")}, 'unknown') AS name,
               left({original}, 400) AS level, len(string_split({original}, ';')) AS count,
               {real(file.pick("Memory Total(KB)"))} AS value, 'KB' AS unit, false AS bad FROM {file.relation}"""


def marks(file: Csv, mindspore: bool) -> str:
    """`msprof_tx`: ranges and marks of the user's code; a mark has no length."""
    end = f"coalesce({ns_sql(file.pick('End_time(us)'))}, start_ns)"
    return f"""
        SELECT 'mark' AS kind, coalesce({file.pick("message")}, 'unnamed') AS name, {whole(file.pick("pid"))} AS pid,
               {whole(file.pick("tid"))} AS tid, {ns_sql(file.pick("Start_time(us)"))} AS start_ns,
               greatest({end} - start_ns, 0) AS dur_ns, nullif({file.pick("domain")}, 'default') AS domain,
               start_ns IS NULL AS bad FROM {file.relation}"""


def sampled(file: Csv, mindspore: bool) -> str:
    """A file of samples: each column of numbers is a series."""
    time = next(name for name in file.columns if name.lower() in ("timestamp(us)", "timestamp", "time_stamp(us)"))
    labels = [name for name in file.columns if name.lower() in ("portid", "channel id", "funcid", "action", "source")]
    source = kind_of(file)
    named = " || ' ' || ".join(f"coalesce({file.pick(name)}, '')" for name in labels) or "''"
    rest = [name for name in file.columns if name not in (time, *labels, *_PLACES)]
    parts = [
        f"SELECT {literal(source)} AS source, trim({named}) AS name, {literal(name)} AS series, "
        f"{ns_sql(file.pick(time))} AS ts_ns, {real(file.pick(name))} AS value, "
        f"{whole(file.pick('Device_id'))} AS device_id, ts_ns IS NULL AS bad "
        f"FROM {file.relation} WHERE {real(file.pick(name))} IS NOT NULL"
        for name in rest
    ]
    return " UNION ALL ".join(parts)


def operating_system(file: Csv, mindspore: bool) -> str:
    """`os_runtime_statistic`: system calls by thread, with their time."""
    return f"""
        SELECT 'os_runtime' AS source, coalesce({file.pick("Name")}, 'unknown') AS name,
               'thread ' || {file.pick("Thread ID")} AS level, {whole(file.pick("Count"))} AS count,
               {ns_sql(file.pick("Time(us)"))} AS total_ns, {ns_sql(file.pick("Min(us)"))} AS min_ns,
               {ns_sql(file.pick("Max(us)"))} AS max_ns, total_ns IS NULL AS bad FROM {file.relation}"""


def queued(file: Csv, mindspore: bool) -> str:
    """`aicpu_mi`: each node of the data preparation on the device, its time and the mean length of its queue."""
    took = f"{ns_sql(file.pick('End Time(us)'))} - {ns_sql(file.pick('Start Time(us)'))}"
    return f"""
        SELECT 'aicpu_mi' AS source, coalesce({file.pick("Node Name")}, 'unknown') AS name, count(*) AS count,
               sum({took})::BIGINT AS total_ns, min({took}) AS min_ns, max({took}) AS max_ns,
               avg({real(file.pick("Queue Size"))}) AS value, 'queue size' AS unit, false AS bad
        FROM {file.relation} GROUP BY ALL"""


def any_numbers(file: Csv, mindspore: bool) -> str:
    """Any other known file: each cell of a column of numbers, labelled by the row's first cells of text."""
    source = kind_of(file)
    texts = [name for name in file.columns if _LABEL.search(name)][:_LABELS]
    rest = [name for name in file.columns if name not in (*texts, *_PLACES)]
    named = " || ' ' || ".join(f"coalesce({file.pick(name)}, '')" for name in texts) or "''"
    parts = [
        f"SELECT {literal(source)} AS source, coalesce(nullif(trim({named}), ''), 'all') AS name, "
        f"{literal(_UNIT.sub('', name).strip().lower())} AS level, {real(file.pick(name))} AS value, "
        f"{literal(_unit(name))} AS unit, false AS bad FROM (FROM {file.relation} LIMIT {_MOST_ROWS}) "
        f"WHERE {real(file.pick(name))} IS NOT NULL"
        for name in rest
    ]
    return " UNION ALL ".join(parts)


def _unit(column: str) -> str:
    found = _UNIT.search(column)
    return found.group(1) if found else "as written"
