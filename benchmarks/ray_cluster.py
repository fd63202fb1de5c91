"""Analyses modelled ranks on an S3 server with a Ray cluster of three hosts, one of which is killed.

    python benchmarks/ray_cluster.py 64 256 1024 4096 [--rows FILE] [--page]

For each size, the ranks are written, put on an S3 server (moto) beside three hosts with namespaces of their own. The
ranks are analyzed by one process (`--engine serial --jobs 1`) and by the cluster, at the same time. The third host is
killed when it has read a twelfth of the ranks. The two reports must be equal, byte by byte. The script needs root. Rows
are kept in FILE, so an interrupted run can go on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.fleet.hosts.ray_nodes import Cluster, cluster

from hermes_testing import Job, generate
from hermes_testing.markdown import replace_block, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
KILLED_AFTER = 12
"""The third host is killed when it has read one part in so many of the ranks: a quarter of its own."""
Row = dict[str, Any]


def main() -> int:
    """Run the sizes that are not in the rows yet, and print or write the table; 1 if two reports differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="+", type=int)
    parser.add_argument("--rows", type=Path, default=Path("ray_cluster.jsonl"), help="where rows are kept")
    parser.add_argument("--page", action="store_true", help="write the table into docs/benchmarks.md")
    given = parser.parse_args()
    kept = given.rows.read_text("utf-8").splitlines() if given.rows.exists() else []
    rows = {row["ranks"]: row for row in map(json.loads, kept)}
    for size in given.sizes:
        if size not in rows:
            rows[size] = measured(size)
            with given.rows.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[size]) + "\n")
    found = [rows[size] for size in sorted(given.sizes)]
    text = section(found)
    sys.stdout.write(text + "\n")
    if given.page:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "ray", text), "utf-8")
    return 0 if all(row["equal"] for row in found) else 1


def measured(size: int) -> Row:
    """The row of one size: both reports, and their costs."""
    with tempfile.TemporaryDirectory(prefix="hermes-ray-") as name:
        folder, load = Path(name), os.getloadavg()[0]
        job = Job(ranks=size, steps=1, layers=1, hosts=size // 8)
        generate(folder / "job", job, formats=["ascend-db"], truth=False)
        with cluster(folder / "lab", folder / "job") as made, ThreadPoolExecutor(1) as beside:
            alone = beside.submit(_serially, made)
            begin = time.monotonic()
            report, killed = made.analyzed(kill=True, after=max(1, size // KILLED_AFTER))
            wall_s = time.monotonic() - begin
            read = made.cached(killed)
            expected, serial_s, serial_cpu_s = alone.result()
    return {
        "ranks": size, "equal": report == expected, "sha256": hashlib.sha256(report.encode()).hexdigest(),
        "report_bytes": len(report.encode()), "wall_s": wall_s, "serial_wall_s": serial_s,
        "serial_cpu_s": serial_cpu_s, "killed_after": read, "load": load,
    }  # fmt: skip


def _serially(made: Cluster) -> tuple[str, float, float]:
    """The report of one process, its wall time and its CPU time."""
    begin = time.monotonic()
    report = made.serially()
    return report, time.monotonic() - begin, made.serial_cpu_s


def section(rows: list[Row]) -> str:
    """The table of the page."""
    header = ("ranks", "read by the killed host", "equal to serial", "cluster, s", "ms a rank",
              "serial, s", "ms a rank", "CPU ms a rank", "load before")  # fmt: skip
    return table(header, [
        (f"{row['ranks']:,}", f"{row['killed_after']:,}", "yes" if row["equal"] else "**no**",
         f"{row['wall_s']:.0f}", f"{1e3 * row['wall_s'] / row['ranks']:.0f}",
         f"{row['serial_wall_s']:.0f}",
         f"{1e3 * row['serial_wall_s'] / row['ranks']:.0f}", f"{1e3 * row['serial_cpu_s'] / row['ranks']:.0f}",
         f"{row['load']:.1f}")
        for row in rows
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
